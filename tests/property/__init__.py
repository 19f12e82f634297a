"""Properties over generated values."""
