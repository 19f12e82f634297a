"""One suite, every store engine."""
