"""The documents, and what of them is generated."""
