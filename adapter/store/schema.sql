-- The adapter's store. Times are microseconds; names stand once and rows refer to them by number, which keeps the
-- rows that are written most (deliveries) narrow.

CREATE TABLE IF NOT EXISTS agents (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- last_sequence and last_message_id outlive the messages they numbered, so that no number is ever used twice.
CREATE TABLE IF NOT EXISTS channels (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    last_sequence INTEGER NOT NULL,
    last_message_id INTEGER NOT NULL
) STRICT;

-- One row, written at each opening: proof that the store takes writes before anything is promised.
CREATE TABLE IF NOT EXISTS openings (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    opened_at_us INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY,
    channel_id INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    sender_id INTEGER NOT NULL,
    idempotency_key BLOB NOT NULL,
    content_sha256 BLOB NOT NULL,
    accepted_at_us INTEGER NOT NULL,
    keep_forever INTEGER NOT NULL,
    task_id TEXT,
    parent_task_id TEXT,
    envelope BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS messages_by_sequence ON messages (channel_id, sequence);
-- The key first: time-ordered keys then fill one leaf after the other, whoever sends.
CREATE UNIQUE INDEX IF NOT EXISTS messages_by_key ON messages (idempotency_key, sender_id);
CREATE INDEX IF NOT EXISTS messages_by_task ON messages (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS messages_by_parent_task ON messages (parent_task_id) WHERE parent_task_id IS NOT NULL;

-- state: 0 queued, 1 leased, 2 acked, 3 dead (adapter/core/delivery.py).
CREATE TABLE IF NOT EXISTS deliveries (
    message_id INTEGER NOT NULL,
    recipient_id INTEGER NOT NULL,
    state INTEGER NOT NULL,
    order_key INTEGER NOT NULL,
    critical INTEGER NOT NULL,
    handovers INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    solo INTEGER NOT NULL,
    expires_at_us INTEGER,
    lease_until_us INTEGER NOT NULL,
    not_before_us INTEGER NOT NULL,
    token TEXT,
    reason TEXT,
    detail TEXT,
    result BLOB,
    PRIMARY KEY (message_id, recipient_id)
) STRICT, WITHOUT ROWID;

-- What a restart loads: bounded by the queues, however large the store.
CREATE INDEX IF NOT EXISTS deliveries_live ON deliveries (message_id, recipient_id) WHERE state < 2;
