"""The demo's own parts."""
