-- Sends that wait for the adapter, in order. The id is never reused, so order survives any restart.
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    idempotency_key TEXT NOT NULL UNIQUE,
    content_sha256 BLOB NOT NULL,
    envelope BLOB NOT NULL,
    queued_at_us INTEGER NOT NULL
);

-- Sends that were queued and that the adapter then refused for good, with its problem.
CREATE TABLE IF NOT EXISTS outbox_dead (
    idempotency_key TEXT PRIMARY KEY,
    envelope BLOB NOT NULL,
    problem BLOB NOT NULL,
    refused_at_us INTEGER NOT NULL
);

-- Messages the agent has processed, and what it made of them. Ids grow with time, which pruning relies on.
-- delivery_id is the hand-over whose acknowledgement made the record. While stands is 0, a refusal of it takes the record
-- back; it is 1 once something was promised on the strength of it.
CREATE TABLE IF NOT EXISTS processed (
    id INTEGER PRIMARY KEY,
    sender TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    stands INTEGER NOT NULL DEFAULT 0,
    result BLOB,
    processed_at_us INTEGER NOT NULL,
    UNIQUE (sender, idempotency_key)
);

-- Acknowledgements the adapter has not heard yet.
CREATE TABLE IF NOT EXISTS deferred_acks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id TEXT NOT NULL UNIQUE,
    result BLOB
);

-- The highest sequence of each channel that was handed over.
CREATE TABLE IF NOT EXISTS seen (
    channel TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL
) WITHOUT ROWID;

-- What an operator was told of and is not over. Times are steady, in microseconds, and clamped by the next process.
CREATE TABLE IF NOT EXISTS conditions (
    name TEXT PRIMARY KEY,
    since_us INTEGER NOT NULL,
    told_us INTEGER NOT NULL,
    times INTEGER NOT NULL
) WITHOUT ROWID;
