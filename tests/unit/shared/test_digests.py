"""Hashing in slices gives what the standard library gives in one go."""

import hashlib
import hmac
import random

import pytest

from shared.digests import Hmac, sha256

SIZES = [0, 1, 55, 64, 2_046, 2_047, 2_048, 4_094, 4_095, 10_000, 65_535, 65_536, 300_000]


@pytest.mark.parametrize("size", SIZES)
def test_slices_change_nothing(size: int) -> None:
    """At every boundary of a slice and beyond the largest: the digest and the MAC are those of the whole."""
    data = random.Random(size).randbytes(size)
    secret = b"secret" * 10
    assert sha256(data).digest() == hashlib.sha256(data).digest()
    assert Hmac(secret).hexdigest(data) == hmac.digest(secret, data, "sha256").hex()


def test_a_mac_can_be_used_again() -> None:
    """The prototype is not spent by a message."""
    mac = Hmac(b"s" * 32)
    assert [mac.hexdigest(b"a"), mac.hexdigest(b"b"), mac.hexdigest(b"a")][::2] == [mac.hexdigest(b"a")] * 2
