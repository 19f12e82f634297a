"""The wire, byte for byte."""
