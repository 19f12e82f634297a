"""Bounds of the wire, each with its reason. Deployments override the tunable ones in `multiclaw.toml`."""

from typing import Final

ENVELOPE_BYTES_MAX: Final = 256 * 1024
"""Largest envelope, its signature apart, as compact JSON: a sidecar and the adapter must measure the same, or what
was queued is refused later. Larger work travels as a file with a receipt."""

BATCH_MESSAGES_MAX: Final = 100
"""Messages in one batch, on the agents' API and on the link: bounds the work one request can demand."""

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Body of a batch. 100 messages of the mean 2 KB fit 40 times over; a sidecar splits what is larger."""

IDENTIFIER_CHARS_MAX: Final = 128
"""Names of threads, tasks, files and keys: more than two UUIDs, and no place for content."""

JSON_DEPTH_MAX: Final = 64
"""Nesting of any JSON we accept; parsers elsewhere fail between 100 and 1,000 levels."""

INTEGER_MAX: Final = 2**53 - 1
"""Largest integer every JSON reader agrees on (RFC 7493, section 2.2)."""

UNIX_PATH_BYTES_MAX: Final = 107
"""`sun_path` holds 108 bytes with the closing NUL (unix(7))."""

POLL_WAIT_SECONDS_MAX: Final = 60.0
"""Longest long-poll, below the idle limits of common proxies and clients."""

POLL_MESSAGES_MAX: Final = 100
"""Most messages of one hand-over."""

REASON_CHARS_MAX: Final = 1_000
"""Stored text of a failure's reason."""

RESULT_BYTES_MAX: Final = 16 * 1024
"""Stored result of a processed message; larger results travel as messages."""

LEASE_SECONDS_MAX: Final = 3_600.0
"""Longest lease after an extension."""

SCHEDULE_AHEAD_DAYS_MAX: Final = 30
"""How far ahead a message may be scheduled: as long as messages are kept. What is planned for longer than that belongs
into a calendar that people look at."""

SCHEDULED_PER_SENDER_MAX: Final = 1_000
"""Scheduled messages of one sender, those that failed included: as many as an outbox holds. The adapter keeps the key
of each in memory, some 200 bytes."""

SIGNATURE_AGE_SECONDS_MAX: Final = 300.0
"""A signature older (or newer) than this is refused. Messages are signed when they leave the outbox, so the
age is that of one request; keys are remembered as long as their messages, which is far longer."""

RETENTION_DAYS_MIN: Final = 90 * 60 / 86_400
"""Nothing is forgotten within 90 minutes: that long an idempotency key is remembered whatever a deployment sets."""

PROCESSED_SECONDS_MIN: Final = 31 * 24 * 3_600
"""How long a receiving sidecar remembers what it has processed, at least: an adapter whose store was restored or
repaired may hand it over again, and the sidecar absorbs it."""
