"""The proofs, from single functions to whole deployments."""
