"""The sidecar: one process per agent. It owns the agent's identity, its outbox, and its way to the adapter."""
