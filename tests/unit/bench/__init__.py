"""The bench's own parts, without a deployment."""
