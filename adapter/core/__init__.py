"""Decisions: values in, decisions out. No I/O, no clock, no chance; the edges hand those in."""
