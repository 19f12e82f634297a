"""The Orchestrator's watcher: it tails the journal and hands every alarm of the deployment on, without the adapter."""
