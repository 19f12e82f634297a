-- What the repair asks of the store that it builds (adapter/store/rebuilding.py), by name: "-- name: x" begins one.

-- Where {table}, {key}, {columns} and {marks} stand, rebuilt_rows.py puts names of the schema.

-- name: all_rows
SELECT {columns} FROM {table}

-- name: newest_number
SELECT max({key}) FROM {table}

-- name: rows_after
SELECT {columns} FROM {table} WHERE {key} > ? ORDER BY {key}

-- name: rows_of
SELECT {columns} FROM {table} WHERE {key} = ?

-- name: insert_row
INSERT INTO {table} ({columns}) VALUES ({marks})

-- name: insert_row_once
INSERT INTO {table} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING

-- name: empty_table
DELETE FROM {table}

-- name: counters
SELECT id, last_sequence, last_message_id FROM channels ORDER BY id

-- name: sum_of_counters
SELECT sum(last_sequence) FROM channels

-- name: ends
SELECT name, last_sequence FROM channels ORDER BY id

-- name: count_messages
SELECT count(*) FROM messages

-- name: schema_rows
SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name

-- name: channel_name
SELECT name FROM channels WHERE id = ?

-- name: missing_sequences
SELECT c.name, m.before + 1, m.sequence - 1, m.before_id, m.id
FROM (
    SELECT channel_id, sequence, id,
           lag(sequence, 1, 0) OVER (PARTITION BY channel_id ORDER BY sequence) AS before,
           lag(id, 1, 0) OVER (PARTITION BY channel_id ORDER BY sequence) AS before_id
    FROM messages INDEXED BY messages_by_sequence
) AS m JOIN channels AS c ON c.id = m.channel_id
WHERE m.sequence > m.before + 1

-- name: missing_ends
SELECT name, newest + 1, last_sequence, newest_id, NULL
FROM (
    SELECT c.name, c.last_sequence,
           coalesce((SELECT max(m.sequence) FROM messages AS m WHERE m.channel_id = c.id), 0) AS newest,
           coalesce((SELECT m.id FROM messages AS m WHERE m.channel_id = c.id ORDER BY m.sequence DESC LIMIT 1), 0)
               AS newest_id
    FROM channels AS c
)
WHERE last_sequence > newest

-- name: raise_counters
UPDATE channels SET
    last_sequence = max(last_sequence, coalesce((SELECT max(sequence) FROM messages WHERE channel_id = channels.id), 0)),
    last_message_id = max(last_message_id, coalesce((SELECT id FROM messages WHERE channel_id = channels.id
                                                     ORDER BY sequence DESC LIMIT 1), 0))

-- name: messages_by_sequence
SELECT id, NULL FROM messages INDEXED BY messages_by_sequence

-- name: messages_by_key
SELECT id, NULL FROM messages INDEXED BY messages_by_key WHERE idempotency_key IS NOT NULL

-- name: deliveries_live
SELECT message_id, recipient_id FROM deliveries INDEXED BY deliveries_live WHERE state < 2

-- name: is_message
SELECT 1 FROM messages WHERE id = ?

-- name: is_delivery
SELECT 1 FROM deliveries WHERE message_id = ? AND recipient_id = ?

-- name: drop_deliveries_of
DELETE FROM deliveries WHERE message_id = ?

-- name: note_unsure
INSERT INTO unsure (message_id) VALUES (?) ON CONFLICT DO NOTHING

-- name: unsure
CREATE TEMP TABLE unsure (message_id INTEGER PRIMARY KEY)

-- name: unsure_and_live
SELECT count(*) FROM deliveries AS d INDEXED BY deliveries_live JOIN unsure AS u ON u.message_id = d.message_id
WHERE d.state < 2

-- name: message_there
SELECT channel_id, sequence, accepted_at_us, envelope FROM messages WHERE id = ?

-- name: recipients_before
SELECT recipient_id FROM deliveries WHERE message_id = (
    SELECT m.id FROM messages AS m
    WHERE m.channel_id = ? AND m.sequence < ? AND EXISTS (SELECT 1 FROM deliveries AS d WHERE d.message_id = m.id)
      AND NOT EXISTS (SELECT 1 FROM unsure AS u WHERE u.message_id = m.id)
    ORDER BY m.sequence DESC LIMIT 1)

-- name: recipients_after
SELECT recipient_id FROM deliveries WHERE message_id = (
    SELECT m.id FROM messages AS m
    WHERE m.channel_id = ? AND m.sequence > ? AND EXISTS (SELECT 1 FROM deliveries AS d WHERE d.message_id = m.id)
      AND NOT EXISTS (SELECT 1 FROM unsure AS u WHERE u.message_id = m.id)
    ORDER BY m.sequence LIMIT 1)

-- name: deliveries_without_message
SELECT DISTINCT message_id FROM deliveries AS d WHERE NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.id = d.message_id)

-- name: drop_deliveries
DELETE FROM deliveries AS d WHERE NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.id = d.message_id)

-- name: drop_letters
DELETE FROM dead_letters AS l WHERE NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.id = l.message_id)

-- name: bury_the_unsure
UPDATE deliveries SET state = 3, token = NULL, cycles = l.cycles, reason = l.reason
FROM dead_letters AS l
WHERE l.message_id = deliveries.message_id AND l.recipient_id = deliveries.recipient_id
  AND deliveries.message_id IN (SELECT message_id FROM unsure)
  AND deliveries.state < 2 AND l.closure IS NOT 'replayed'

-- name: bury_the_open
UPDATE deliveries SET state = 3, token = NULL, cycles = l.cycles, reason = l.reason
FROM dead_letters AS l
WHERE l.message_id = deliveries.message_id AND l.recipient_id = deliveries.recipient_id
  AND deliveries.state <> 3 AND l.closure IS NULL

-- name: revive_the_unsure
UPDATE deliveries SET state = 0, token = NULL, reason = NULL, detail = NULL, not_before_us = 0
FROM dead_letters AS l
WHERE l.message_id = deliveries.message_id AND l.recipient_id = deliveries.recipient_id
  AND deliveries.message_id IN (SELECT message_id FROM unsure)
  AND deliveries.state = 3 AND l.closure = 'replayed'

-- name: letters_of_the_dead
INSERT INTO dead_letters (message_id, recipient_id, cycles, died_at_us, reason, history)
SELECT d.message_id, d.recipient_id, max(d.cycles, 1), :now_us, coalesce(d.reason, 'refused'),
       json_array(json_object('reason', coalesce(d.reason, 'refused'), 'detail', d.detail, 'handovers', d.handovers,
                              'failures', d.failures, 'died_at_us', :now_us))
FROM deliveries AS d
WHERE d.state = 3
  AND NOT EXISTS (SELECT 1 FROM dead_letters AS l WHERE l.message_id = d.message_id AND l.recipient_id = d.recipient_id)

-- name: letters_without_delivery
SELECT count(*) FROM dead_letters AS l
WHERE l.closure IS NULL
  AND NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.message_id = l.message_id AND d.recipient_id = l.recipient_id)

-- name: hold_below_floors
INSERT INTO held_messages (message_id)
SELECT m.id FROM retention_floors AS f CROSS JOIN messages AS m
    ON m.channel_id = f.channel_id AND m.sequence <= f.sequence AND m.keep_forever = f.keep_forever
