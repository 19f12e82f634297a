"""The bench's own processes."""
