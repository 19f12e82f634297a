"""The adapter: routing, order, the durable store, and what becomes of every delivery. One per deployment."""
