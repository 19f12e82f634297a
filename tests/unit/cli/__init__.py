"""The command line, in-process: no other process runs."""
