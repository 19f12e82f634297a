"""The watcher's decisions."""
