"""Real processes, judged from outside."""
