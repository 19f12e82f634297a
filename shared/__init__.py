"""What both processes need: wire contracts, strict JSON, signing, configuration, and the edges they share.

Imports nothing of `adapter`, `sidecar` or `multiclaw`.
"""
