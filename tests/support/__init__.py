"""Helpers of several test packages."""
