-- Every statement of the store, by name: "-- name: x" begins one. Read by queries.py.

-- name: insert_agent
INSERT INTO agents (name) VALUES (?) ON CONFLICT DO NOTHING

-- name: insert_channel
INSERT INTO channels (name, last_sequence) VALUES (?, 0) ON CONFLICT DO NOTHING

-- name: agents
SELECT id, name FROM agents

-- name: channels
SELECT id, name, last_sequence FROM channels

-- name: counter
SELECT value FROM counters WHERE name = ?

-- name: save_counter
INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: save_sequence
UPDATE channels SET last_sequence = ? WHERE id = ?

-- name: last_accepted_at
SELECT accepted_at_us FROM messages ORDER BY id DESC LIMIT 1

-- name: live_deliveries
SELECT message_id, recipient_id, state, order_key, critical, handovers, failures, solo, expires_at_us,
       lease_until_us, not_before_us, token, reason, detail, result
FROM deliveries INDEXED BY deliveries_live WHERE state < 2 ORDER BY message_id, recipient_id

-- name: find_send
SELECT id, content_sha256, channel_id, sequence, accepted_at_us
FROM messages WHERE sender_id = ? AND idempotency_key = ?

-- name: insert_message
INSERT INTO messages (id, channel_id, sequence, sender_id, idempotency_key, content_sha256, accepted_at_us,
                      keep_forever, task_id, parent_task_id, envelope)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: envelope_at
SELECT envelope FROM messages WHERE channel_id = ? AND sequence = ?

-- name: envelope
SELECT envelope FROM messages WHERE id = ?

-- name: deliveries_of
SELECT message_id, recipient_id, state, order_key, critical, handovers, failures, solo, expires_at_us,
       lease_until_us, not_before_us, token, reason, detail, result
FROM deliveries WHERE message_id = ?

-- name: find_delivery
SELECT message_id, recipient_id, state, order_key, critical, handovers, failures, solo, expires_at_us,
       lease_until_us, not_before_us, token, reason, detail, result
FROM deliveries WHERE message_id = ? AND recipient_id = ?

-- name: save_delivery
INSERT INTO deliveries (message_id, recipient_id, state, order_key, critical, handovers, failures, solo,
                        expires_at_us, lease_until_us, not_before_us, token, reason, detail, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (message_id, recipient_id) DO UPDATE SET
    state = excluded.state, handovers = excluded.handovers, failures = excluded.failures, solo = excluded.solo,
    lease_until_us = excluded.lease_until_us, not_before_us = excluded.not_before_us, token = excluded.token,
    reason = excluded.reason, detail = excluded.detail, result = excluded.result

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
