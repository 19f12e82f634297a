"""Idempotency keys: time-ordered UUIDs (RFC 9562, version 7), which keep the adapter's key index append-only."""

import os
import time
from uuid import UUID


def new_key() -> str:
    """48 bits of Unix milliseconds, then version, variant and 74 random bits."""
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    return str(UUID(int=value & ~(0x3 << 62) | 0x2 << 62))
