-- Every statement of the store, by name: "-- name: x" begins one. Read by queries.py.
-- Where {rows} stands, rows.py puts as many rows as there are.

-- name: insert_agent
INSERT INTO agents (name) VALUES (?) ON CONFLICT DO NOTHING

-- name: insert_channel
INSERT INTO channels (name, last_sequence, last_message_id) VALUES (?, 0, 0) ON CONFLICT DO NOTHING

-- name: agents
SELECT id, name FROM agents

-- name: channels
SELECT id, name, last_sequence FROM channels

-- name: last_message_id
SELECT max(last_message_id) FROM channels

-- name: save_opening
INSERT INTO openings (id, opened_at_us) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET opened_at_us = excluded.opened_at_us

-- name: save_sequences
UPDATE channels SET last_sequence = new.column2, last_message_id = new.column3
FROM (VALUES {rows}) AS new WHERE channels.id = new.column1

-- name: last_accepted_at
SELECT accepted_at_us FROM messages ORDER BY id DESC LIMIT 1

-- name: live_deliveries
SELECT message_id, recipient_id, state, order_key, critical, handovers, failures, solo, expires_at_us,
       lease_until_us, not_before_us, token, reason, detail, result
FROM deliveries INDEXED BY deliveries_live WHERE state < 2 ORDER BY message_id, recipient_id

-- name: find_sends
SELECT m.sender_id, m.idempotency_key, m.id, m.content_sha256, m.channel_id, m.sequence, m.accepted_at_us
FROM (VALUES {rows}) AS wanted
CROSS JOIN messages AS m ON m.sender_id = wanted.column1 AND m.idempotency_key = wanted.column2

-- name: insert_messages
INSERT INTO messages (id, channel_id, sequence, sender_id, idempotency_key, content_sha256, accepted_at_us,
                      keep_forever, task_id, parent_task_id, envelope)
VALUES {rows}

-- name: envelope_at
SELECT envelope FROM messages WHERE channel_id = ? AND sequence = ?

-- name: envelopes
SELECT m.id, m.envelope FROM (VALUES {rows}) AS wanted CROSS JOIN messages AS m ON m.id = wanted.column1

-- name: deliveries_of
SELECT message_id, recipient_id, state, order_key, critical, handovers, failures, solo, expires_at_us,
       lease_until_us, not_before_us, token, reason, detail, result
FROM deliveries WHERE message_id = ?

-- name: find_delivery
SELECT message_id, recipient_id, state, order_key, critical, handovers, failures, solo, expires_at_us,
       lease_until_us, not_before_us, token, reason, detail, result
FROM deliveries WHERE message_id = ? AND recipient_id = ?

-- name: insert_deliveries
INSERT INTO deliveries (message_id, recipient_id, state, handovers, failures, solo, lease_until_us, not_before_us,
                        token, reason, detail, result, order_key, critical, expires_at_us)
VALUES {rows}

-- name: update_deliveries
UPDATE deliveries SET
    state = new.column3, handovers = new.column4, failures = new.column5, solo = new.column6,
    lease_until_us = new.column7, not_before_us = new.column8, token = new.column9, reason = new.column10,
    detail = new.column11, result = new.column12
FROM (VALUES {rows}) AS new
WHERE deliveries.message_id = new.column1 AND deliveries.recipient_id = new.column2

-- name: range
SELECT sequence, envelope FROM messages WHERE channel_id = ? AND sequence BETWEEN ? AND ? ORDER BY sequence LIMIT ?

-- name: first_retained
SELECT min(sequence) FROM messages WHERE channel_id = ?

-- name: task_steps
SELECT id, channel_id, sequence, accepted_at_us, sender_id, task_id, parent_task_id, envelope
FROM messages WHERE task_id = ? ORDER BY id LIMIT ?

-- name: parent_of_task
SELECT parent_task_id FROM messages WHERE task_id = ? AND parent_task_id IS NOT NULL ORDER BY id LIMIT 1

-- name: children_of_task
SELECT DISTINCT task_id FROM messages WHERE parent_task_id = ? AND task_id IS NOT NULL ORDER BY id LIMIT ?
