"""What the watcher decides: pure, so no journal, no file and no clock is touched here."""
