"""The shared helpers, one by one."""
