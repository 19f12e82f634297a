"""The link's HTTP edge: parse, load, decide, commit, reply."""
