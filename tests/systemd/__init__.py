"""A real systemd and journald, in a box of its own; skipped, with the reason, where none can be booted."""
