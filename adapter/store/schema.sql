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

-- Older states that were put in the place of newer ones (adapter/store/jump.py): the first message that cannot have been
-- given before, which names the restore; of when the state was, the first message that may be lost, and how far each
-- channel has jumped.
CREATE TABLE IF NOT EXISTS restores (
    id INTEGER PRIMARY KEY,
    restored_at_us INTEGER NOT NULL,
    as_of_us INTEGER NOT NULL,
    first_message_id INTEGER NOT NULL,
    jump INTEGER NOT NULL
) STRICT;

-- What each channel has jumped over then: numbers that may have been given, and whose messages are not here.
CREATE TABLE IF NOT EXISTS lost_ranges (
    channel_id INTEGER NOT NULL,
    first_sequence INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    restore_id INTEGER NOT NULL,
    PRIMARY KEY (channel_id, first_sequence)
) STRICT, WITHOUT ROWID;

-- One row, written at each opening and by probes (pulse.py): proof that the store takes writes. Wall time.
CREATE TABLE IF NOT EXISTS proofs (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    proven_at_us INTEGER NOT NULL
) STRICT;

-- How far retention has come in each channel: below it, nothing of the class is left to look at.
CREATE TABLE IF NOT EXISTS retention_floors (
    channel_id INTEGER NOT NULL,
    keep_forever INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (channel_id, keep_forever)
) STRICT, WITHOUT ROWID;

-- Messages below the floor of theirs that could not go: not received yet, or an open dead letter.
CREATE TABLE IF NOT EXISTS held_messages (
    message_id INTEGER PRIMARY KEY
) STRICT;

-- One row: the wall time that was trusted last (adapter/core/clock_trust.py), and the newest receipt time of which
-- messages may have been forgotten.
CREATE TABLE IF NOT EXISTS retention_clock (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    trusted_us INTEGER NOT NULL,
    forgotten_us INTEGER NOT NULL
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
    cycles INTEGER NOT NULL,
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

-- One row for each delivery that ever died, written with its death. closure: NULL while somebody must decide, else
-- 'replayed', 'resolved' or 'resent', and then replaced_* is the place of the message that replaces it. history: JSON, the newest deaths (adapter/core/dead_letters.py); reason is that of the last.
CREATE TABLE IF NOT EXISTS dead_letters (
    message_id INTEGER NOT NULL,
    recipient_id INTEGER NOT NULL,
    cycles INTEGER NOT NULL,
    died_at_us INTEGER NOT NULL,
    reason TEXT NOT NULL,
    closure TEXT,
    closed_at_us INTEGER,
    note TEXT,
    history TEXT NOT NULL,
    replaced_channel_id INTEGER,
    replaced_sequence INTEGER,
    PRIMARY KEY (message_id, recipient_id)
) STRICT, WITHOUT ROWID;

-- Open ones in commit order, for pages and replays, and the same by what they are grouped by.
CREATE INDEX IF NOT EXISTS dead_letters_open ON dead_letters (message_id, recipient_id) WHERE closure IS NULL;
CREATE INDEX IF NOT EXISTS dead_letters_groups ON dead_letters (recipient_id, reason, died_at_us, closure)
    WHERE closure IS NULL;

-- Those of one recipient in commit order, for replay jobs.
CREATE INDEX IF NOT EXISTS dead_letters_turns ON dead_letters (recipient_id, message_id, reason, died_at_us, closure)
    WHERE closure IS NULL;

-- Replay jobs that run, and a bounded number of those that ended (adapter/core/replay_job.py). lanes: JSON, how far
-- the job has come for each recipient.
CREATE TABLE IF NOT EXISTS replays (
    id TEXT PRIMARY KEY,
    recipient TEXT,
    reason TEXT,
    cut_off_us INTEGER NOT NULL,
    rate REAL,
    count_max INTEGER,
    created_at_us INTEGER NOT NULL,
    matched INTEGER NOT NULL,
    lanes TEXT NOT NULL,
    waiting TEXT NOT NULL,
    replayed INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    state TEXT NOT NULL,
    ended_at_us INTEGER
) STRICT;

-- Alarms of late (adapter/core/tallies.py): what is not told yet, and how often it came. recent: JSON, steady times.
CREATE TABLE IF NOT EXISTS tallies (
    kind TEXT NOT NULL,
    agent TEXT NOT NULL,
    reason TEXT NOT NULL,
    untold INTEGER NOT NULL,
    untold_since_us INTEGER NOT NULL,
    total INTEGER NOT NULL,
    since_us INTEGER NOT NULL,
    recent TEXT NOT NULL,
    escalated_us INTEGER,
    PRIMARY KEY (kind, agent, reason)
) STRICT, WITHOUT ROWID;

-- When each agent polled last, wall time, no more than a minute behind (adapter/core/absence.py).
CREATE TABLE IF NOT EXISTS last_seen (
    agent_id INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL
) STRICT;

-- Up to which message of the Human Governor's inbox each way of telling has told (adapter/notifier.py).
CREATE TABLE IF NOT EXISTS announced (
    way TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL
) STRICT;

-- Every version of the topology that was ever proposed or found in the file (adapter/core/membership.py): the audit
-- trail, of which nothing is deleted. membership and changes: JSON. in_file: multiclaw.toml is known to have said it.
CREATE TABLE IF NOT EXISTS topologies (
    version INTEGER PRIMARY KEY,
    base INTEGER NOT NULL,
    membership TEXT NOT NULL,
    changes TEXT NOT NULL,
    source TEXT NOT NULL,
    proposed_by TEXT NOT NULL,
    reason TEXT NOT NULL,
    proposed_at_us INTEGER NOT NULL,
    standing TEXT NOT NULL,
    decided_by TEXT,
    decided_at_us INTEGER,
    note TEXT,
    in_file INTEGER NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS topologies_in_file ON topologies (version) WHERE in_file = 1;
-- Sends that wait for their time (adapter/core/appointment.py). standing: 'scheduled', 'failed', 'cancelled'; a row
-- goes when its send becomes a message. number: order of acceptance. The envelope is the one that was sent; of a
-- cancelled one only the key is kept. A row that is replaced gets a new id, so ids tell what was cancelled last.
CREATE TABLE IF NOT EXISTS scheduled (
    id INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    sender_id INTEGER NOT NULL,
    idempotency_key BLOB NOT NULL,
    deliver_at_us INTEGER NOT NULL,
    standing TEXT NOT NULL,
    channel_id INTEGER NOT NULL,
    accepted_at_us INTEGER NOT NULL,
    reason TEXT,
    detail TEXT,
    content_sha256 BLOB NOT NULL,
    order_key INTEGER NOT NULL,
    critical INTEGER NOT NULL,
    rate_class TEXT NOT NULL,
    keep_forever INTEGER NOT NULL,
    expires_at_us INTEGER,
    envelope BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS scheduled_by_key ON scheduled (idempotency_key, sender_id);
CREATE INDEX IF NOT EXISTS scheduled_by_time ON scheduled (deliver_at_us, number) WHERE standing <> 'cancelled';
CREATE INDEX IF NOT EXISTS scheduled_cancelled ON scheduled (id) WHERE standing = 'cancelled';
