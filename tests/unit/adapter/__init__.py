"""Decisions of the adapter, without a store."""
