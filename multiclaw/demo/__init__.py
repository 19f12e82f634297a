"""`multiclaw demo`: a conversation to watch, an adapter to kill, and a census of what became of every message."""
