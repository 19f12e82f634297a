-- Every statement of the store, by name: "-- name: x" begins one. Read by queries.py.
-- Where {rows} stands, rows.py puts as many rows as there are.

-- name: insert_agent
INSERT INTO agents (name) VALUES (?) ON CONFLICT DO NOTHING

-- name: insert_channel
INSERT INTO channels (name, last_sequence, last_message_id)
SELECT ?, coalesce((SELECT sum(jump) FROM restores), 0), 0 WHERE TRUE ON CONFLICT DO NOTHING

-- name: lose_before_channel
INSERT INTO lost_ranges (channel_id, first_sequence, last_sequence, restore_id)
SELECT c.id, 1, c.last_sequence, (SELECT max(id) FROM restores) FROM channels AS c
WHERE c.last_message_id = 0 AND c.last_sequence > 0 AND EXISTS (SELECT 1 FROM restores)
ON CONFLICT DO NOTHING

-- name: sequence_base
SELECT coalesce(sum(jump), 0) FROM restores

-- name: insert_restore
INSERT INTO restores (id, restored_at_us, as_of_us, first_message_id, jump) VALUES (?, ?, ?, ?, ?)

-- name: newest_restore
SELECT id, as_of_us FROM restores ORDER BY id DESC LIMIT 1

-- name: lost_ranges
SELECT channel_id, first_sequence, last_sequence, restore_id FROM lost_ranges ORDER BY channel_id, first_sequence

-- name: lose_range
INSERT INTO lost_ranges (first_sequence, last_sequence, channel_id, restore_id)
SELECT ?, ?, id, (SELECT max(id) FROM restores) FROM channels WHERE name = ?

-- name: lose_ranges
INSERT INTO lost_ranges (channel_id, first_sequence, last_sequence, restore_id)
SELECT id, last_sequence + 1, goes_on_behind, (SELECT max(id) FROM restores)
FROM (SELECT id, last_sequence, max(last_sequence + ?, ?) AS goes_on_behind FROM channels)
WHERE goes_on_behind > last_sequence

-- name: jump_sequences
UPDATE channels SET last_sequence = max(last_sequence + ?, ?), last_message_id = ?

-- name: release_leases
UPDATE deliveries INDEXED BY deliveries_live SET state = 0, lease_until_us = 0, token = NULL
WHERE state < 2 AND state = 1

-- name: renumber_topology
INSERT INTO topologies (version, base, membership, changes, source, proposed_by, reason, proposed_at_us, standing,
                        in_file)
SELECT ?, version, membership, '[]', 'file', 'file', 'the store was put back or repaired', ?, 'current',
       in_file
FROM topologies WHERE standing = 'current'

-- name: supersede_topologies
UPDATE topologies SET standing = 'superseded' WHERE standing = 'current' AND version < ?

-- name: overtake_proposals
UPDATE topologies SET standing = 'stale' WHERE standing = 'proposed'

-- name: agents
SELECT id, name FROM agents

-- name: channels
SELECT id, name, last_sequence FROM channels

-- name: last_message_id
SELECT max(last_message_id) FROM channels

-- name: save_proof
INSERT INTO proofs (id, proven_at_us) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET proven_at_us = excluded.proven_at_us

-- name: is_a_store
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'deliveries'

-- name: last_proof
SELECT proven_at_us FROM proofs

-- name: save_sequences
UPDATE channels SET last_sequence = new.column2, last_message_id = new.column3
FROM (VALUES {rows}) AS new WHERE channels.id = new.column1

-- name: newest_message_id
SELECT max(id) FROM messages

-- name: newest_sequences
SELECT c.name, c.last_sequence, (SELECT max(m.sequence) FROM messages AS m WHERE m.channel_id = c.id)
FROM channels AS c

-- name: orphaned_deliveries
SELECT DISTINCT d.message_id FROM deliveries AS d INDEXED BY deliveries_live
WHERE d.state < 2 AND NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.id = d.message_id) LIMIT ?

-- name: all_orphaned_deliveries
SELECT DISTINCT d.message_id FROM deliveries AS d
WHERE NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.id = d.message_id) LIMIT ?

-- name: orphaned_dead_letters
SELECT DISTINCT l.message_id FROM dead_letters AS l
WHERE NOT EXISTS (SELECT 1 FROM messages AS m WHERE m.id = l.message_id) LIMIT ?

-- name: messages_after
SELECT id, sequence, envelope FROM messages WHERE id > ? ORDER BY id LIMIT ?

-- name: last_accepted_at
SELECT accepted_at_us FROM messages ORDER BY id DESC LIMIT 1

-- name: live_deliveries
SELECT message_id, recipient_id, order_key, critical, expires_at_us,
       state + handovers + failures + cycles + solo + lease_until_us + not_before_us
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

-- name: message_at
SELECT id FROM messages WHERE channel_id = ? AND sequence = ?

-- name: envelopes
SELECT m.id, m.envelope FROM (VALUES {rows}) AS wanted CROSS JOIN messages AS m ON m.id = wanted.column1

-- name: deliveries_of
SELECT message_id, recipient_id, state, order_key, critical, handovers, failures, solo, expires_at_us,
       lease_until_us, not_before_us, token, reason, detail, result, cycles
FROM deliveries WHERE message_id = ?

-- name: find_delivery
SELECT message_id, recipient_id, state, order_key, critical, handovers, failures, solo, expires_at_us,
       lease_until_us, not_before_us, token, reason, detail, result, cycles
FROM deliveries WHERE message_id = ? AND recipient_id = ?

-- name: insert_deliveries
INSERT INTO deliveries (message_id, recipient_id, state, handovers, failures, solo, lease_until_us, not_before_us,
                        token, reason, detail, result, cycles, order_key, critical, expires_at_us)
VALUES {rows}

-- name: update_deliveries
UPDATE deliveries SET
    state = new.column3, handovers = new.column4, failures = new.column5, solo = new.column6,
    lease_until_us = new.column7, not_before_us = new.column8, token = new.column9, reason = new.column10,
    detail = new.column11, result = new.column12, cycles = new.column13
FROM (VALUES {rows}) AS new
WHERE deliveries.message_id = new.column1 AND deliveries.recipient_id = new.column2

-- name: inbox
SELECT m.sequence, m.sequence, d.state, m.envelope
FROM messages AS m CROSS JOIN deliveries AS d ON d.message_id = m.id AND d.recipient_id = ?
WHERE m.channel_id = ? AND m.sequence > ? ORDER BY m.sequence LIMIT ?

-- name: inbox_unread
SELECT d.message_id, m.sequence, d.state, m.envelope
FROM deliveries AS d INDEXED BY deliveries_live CROSS JOIN messages AS m ON m.id = d.message_id
WHERE d.state < 2 AND d.recipient_id = ? AND d.message_id > ? ORDER BY d.message_id LIMIT ?

-- name: range
SELECT sequence, envelope FROM messages WHERE channel_id = ? AND sequence BETWEEN ? AND ? ORDER BY sequence LIMIT ?

-- name: first_retained
SELECT min(sequence) FROM messages WHERE channel_id = ? AND sequence >= ?

-- name: live_keys
SELECT m.id, m.sender_id, m.idempotency_key
FROM deliveries AS d INDEXED BY deliveries_live CROSS JOIN messages AS m ON m.id = d.message_id
WHERE d.state < 2 AND d.message_id > ? AND d.recipient_id = ? ORDER BY d.message_id LIMIT ?

-- name: dead_keys
SELECT m.id, m.sender_id, m.idempotency_key
FROM dead_letters AS l INDEXED BY dead_letters_open CROSS JOIN messages AS m ON m.id = l.message_id
WHERE l.closure IS NULL AND l.message_id > ? AND l.recipient_id = ? ORDER BY l.message_id LIMIT ?

-- name: task_steps
SELECT id, channel_id, sequence, accepted_at_us, sender_id, task_id, parent_task_id, envelope
FROM messages WHERE task_id = ? ORDER BY id LIMIT ?

-- name: parent_of_task
SELECT parent_task_id FROM messages WHERE task_id = ? AND parent_task_id IS NOT NULL ORDER BY id LIMIT 1

-- name: children_of_task
SELECT DISTINCT task_id FROM messages WHERE parent_task_id = ? AND task_id IS NOT NULL ORDER BY id LIMIT ?

-- name: tallies
SELECT kind, agent, reason, untold, untold_since_us, total, since_us, recent, escalated_us FROM tallies

-- name: save_tallies
REPLACE INTO tallies (kind, agent, reason, untold, untold_since_us, total, since_us, recent, escalated_us)
VALUES {rows}

-- name: forget_tally
DELETE FROM tallies WHERE kind = ? AND agent = ? AND reason = ?

-- name: last_seen
SELECT agent_id, at_us FROM last_seen

-- name: save_last_seen
REPLACE INTO last_seen (agent_id, at_us) VALUES {rows}

-- name: announced
SELECT way, sequence FROM announced

-- name: save_announced
REPLACE INTO announced (way, sequence) VALUES (?, ?)

-- name: count_open_dead_letters
SELECT count(*) FROM dead_letters INDEXED BY dead_letters_groups WHERE closure IS NULL

-- name: find_dead_letter
SELECT message_id, recipient_id, cycles, closure, closed_at_us, note, history, replaced_channel_id, replaced_sequence
FROM dead_letters WHERE message_id = ? AND recipient_id = ?

-- name: save_dead_letters
REPLACE INTO dead_letters (message_id, recipient_id, cycles, died_at_us, reason, closure, closed_at_us, note, history,
                          replaced_channel_id, replaced_sequence)
VALUES {rows}

-- name: open_dead_letters
SELECT l.message_id, l.recipient_id, l.cycles, l.closure, l.closed_at_us, l.note, l.history,
       l.replaced_channel_id, l.replaced_sequence,
       m.channel_id, m.sequence, m.sender_id, m.task_id, m.envelope
FROM dead_letters AS l INDEXED BY dead_letters_open CROSS JOIN messages AS m ON m.id = l.message_id
WHERE l.closure IS NULL AND (l.message_id, l.recipient_id) > (?, ?)
  AND l.recipient_id = coalesce(?, l.recipient_id)
  AND l.reason = coalesce(?, l.reason)
  AND l.died_at_us < coalesce(?, l.died_at_us + 1)
ORDER BY l.message_id, l.recipient_id LIMIT ?

-- name: dead_letter_at
SELECT l.message_id, l.recipient_id, l.cycles, l.closure, l.closed_at_us, l.note, l.history,
       l.replaced_channel_id, l.replaced_sequence,
       m.channel_id, m.sequence, m.sender_id, m.task_id, m.envelope
FROM messages AS m CROSS JOIN dead_letters AS l ON l.message_id = m.id
WHERE m.channel_id = ? AND m.sequence = ? AND l.recipient_id = ?

-- name: dead_letter_groups
SELECT recipient_id, reason, count(*), min(died_at_us), max(died_at_us)
FROM dead_letters INDEXED BY dead_letters_groups WHERE closure IS NULL GROUP BY recipient_id, reason

-- name: retained
SELECT m.id, m.channel_id, m.keep_forever, m.sequence, m.accepted_at_us, length(m.envelope),
       EXISTS (SELECT 1 FROM deliveries INDEXED BY deliveries_live WHERE message_id = m.id AND state < 2)
       OR EXISTS (SELECT 1 FROM dead_letters INDEXED BY dead_letters_open WHERE message_id = m.id AND closure IS NULL)
FROM messages AS m WHERE m.channel_id = ? AND m.sequence > ? ORDER BY m.sequence LIMIT ?

-- name: held
SELECT m.id, m.channel_id, m.keep_forever, m.sequence, m.accepted_at_us, length(m.envelope),
       EXISTS (SELECT 1 FROM deliveries INDEXED BY deliveries_live WHERE message_id = m.id AND state < 2)
       OR EXISTS (SELECT 1 FROM dead_letters INDEXED BY dead_letters_open WHERE message_id = m.id AND closure IS NULL)
FROM held_messages AS h CROSS JOIN messages AS m ON m.id = h.message_id
WHERE h.message_id > ? ORDER BY h.message_id LIMIT ?

-- name: hold
INSERT INTO held_messages (message_id) VALUES {rows} ON CONFLICT DO NOTHING

-- name: prune_deliveries
DELETE FROM deliveries WHERE message_id IN (VALUES {rows})

-- name: prune_dead_letters
DELETE FROM dead_letters WHERE message_id IN (VALUES {rows})

-- name: prune_held
DELETE FROM held_messages WHERE message_id IN (VALUES {rows})

-- name: prune_messages
DELETE FROM messages WHERE id IN (VALUES {rows})

-- name: save_floor
REPLACE INTO retention_floors (channel_id, keep_forever, sequence) VALUES (?, ?, ?)

-- name: floors
SELECT channel_id, keep_forever, sequence FROM retention_floors

-- name: save_retention_clock
REPLACE INTO retention_clock (id, trusted_us, forgotten_us) VALUES (1, ?, ?)

-- name: retention_clock
SELECT trusted_us, forgotten_us FROM retention_clock

-- name: open_messages
SELECT message_id FROM dead_letters INDEXED BY dead_letters_turns
WHERE closure IS NULL AND recipient_id = ? AND message_id > ?
  AND reason = coalesce(?, reason) AND died_at_us < coalesce(?, died_at_us + 1)
ORDER BY message_id LIMIT ?

-- name: count_dead_letters
SELECT recipient_id, count(*) FROM dead_letters INDEXED BY dead_letters_groups
WHERE closure IS NULL AND recipient_id = coalesce(?, recipient_id)
  AND reason = coalesce(?, reason) AND died_at_us < coalesce(?, died_at_us + 1)
GROUP BY recipient_id

-- name: replays
SELECT id, recipient, reason, cut_off_us, rate, count_max, created_at_us, matched, lanes, waiting, replayed, refused,
       state, ended_at_us
FROM replays

-- name: replay_at
SELECT id, recipient, reason, cut_off_us, rate, count_max, created_at_us, matched, lanes, waiting, replayed, refused,
       state, ended_at_us
FROM replays WHERE id = ?

-- name: save_replays
REPLACE INTO replays (id, recipient, reason, cut_off_us, rate, count_max, created_at_us, matched, lanes, waiting,
                      replayed, refused, state, ended_at_us)
VALUES {rows}

-- name: drop_replays
DELETE FROM replays WHERE id IN (VALUES {rows})

-- name: save_topology
REPLACE INTO topologies (version, base, membership, changes, source, proposed_by, reason, proposed_at_us, standing,
                         decided_by, decided_at_us, note, in_file)
VALUES {rows}

-- name: find_topology
SELECT version, base, membership, changes, source, proposed_by, reason, proposed_at_us, standing,
       decided_by, decided_at_us, note, in_file
FROM topologies WHERE version = ?

-- name: last_topology
SELECT max(version) FROM topologies

-- name: last_topology_in_file
SELECT max(version) FROM topologies INDEXED BY topologies_in_file WHERE in_file = 1

-- name: topologies_that_count
SELECT version, base, membership, changes, source, proposed_by, reason, proposed_at_us, standing,
       decided_by, decided_at_us, note, in_file
FROM topologies WHERE version >= ? AND standing IN ('proposed', 'current', 'superseded')
ORDER BY version

-- name: topologies
SELECT version, base, membership, changes, source, proposed_by, reason, proposed_at_us, standing,
       decided_by, decided_at_us, note, in_file
FROM topologies WHERE version < ? ORDER BY version DESC LIMIT ?

-- name: appointments
SELECT number, sender_id, idempotency_key, deliver_at_us, standing
FROM scheduled INDEXED BY scheduled_by_time WHERE standing <> 'cancelled'

-- name: find_scheduled
SELECT number, sender_id, idempotency_key, deliver_at_us, standing, channel_id, accepted_at_us, reason, detail,
       content_sha256, order_key, critical, rate_class, keep_forever, expires_at_us, envelope
FROM scheduled WHERE idempotency_key = ? AND sender_id = ?

-- name: save_scheduled
REPLACE INTO scheduled (number, sender_id, idempotency_key, deliver_at_us, standing, channel_id, accepted_at_us, reason,
                        detail, content_sha256, order_key, critical, rate_class, keep_forever, expires_at_us, envelope)
VALUES {rows}

-- name: drop_scheduled
DELETE FROM scheduled WHERE idempotency_key = ? AND sender_id = ?

-- name: cancelled_long_ago
SELECT id FROM scheduled INDEXED BY scheduled_cancelled WHERE standing = 'cancelled' ORDER BY id DESC LIMIT 1 OFFSET ?

-- name: forget_cancelled
DELETE FROM scheduled INDEXED BY scheduled_cancelled WHERE standing = 'cancelled' AND id <= ?

-- name: list_scheduled
SELECT number, sender_id, idempotency_key, deliver_at_us, standing, channel_id, accepted_at_us, reason, detail, envelope
FROM scheduled INDEXED BY scheduled_by_time
WHERE standing <> 'cancelled' AND (deliver_at_us, number) > (?, ?) AND sender_id = coalesce(?, sender_id)
ORDER BY deliver_at_us, number LIMIT ?
