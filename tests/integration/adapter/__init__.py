"""The adapter as a real process behind a real socket."""
