"""The shared edges."""
