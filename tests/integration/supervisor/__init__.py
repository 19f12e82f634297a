"""The supervisor with real children."""
