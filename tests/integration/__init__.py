"""Parts against the real kernel: sockets, SQLite, processes."""
