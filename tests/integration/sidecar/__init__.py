"""Integration tests of the sidecar: real sockets, real SQLite, real processes."""
