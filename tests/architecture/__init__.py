"""The rules of the codebase, as tests."""
