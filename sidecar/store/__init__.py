"""What a sidecar must not forget, in one SQLite file: outbox, processed keys, deferred acks, sequences seen."""
