"""Envelopes in their rows, over generated ones and over rows of garbage."""

import contextlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.store.envelopes import read_stored, stored_envelope, to_column
from shared.database import Damage
from shared.strict_json import encode
from tests.property.test_json import documents, texts
from tests.support.factories import noise
from tests.support.store_hand import as_sent

envelopes = st.dictionaries(texts, documents | texts.map(lambda text: text * 300)).map(encode)
"""Small ones, which are not worth packing, and ones that repeat themselves."""

PACKED = to_column(encode({"text": f"{noise(1, 300)} {noise(2, 300)} " * 3}))


@given(envelopes)
def test_an_envelope_comes_back_byte_for_byte(envelope: bytes) -> None:
    """Whichever form it takes in its row, which is never the longer one; and a second reader of the form agrees."""
    column = to_column(envelope)
    assert stored_envelope(column) == as_sent(column) == envelope
    assert len(column) <= len(envelope)


@pytest.mark.parametrize(
    ("envelope", "is_packed"),
    [({"n": 1}, False), ({"text": noise(0, 3_000)}, False), ({"text": "so it goes, " * 200}, True)],
)
def test_what_gains_nothing_stays_as_it_is(envelope: dict[str, Any], is_packed: bool) -> None:
    """Tiny ones, and those that hold what cannot be made shorter."""
    column = to_column(encode(envelope))
    assert (column != encode(envelope)) == is_packed
    assert read_stored(column) == envelope


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x01", b"\x01\x40\x00\x00\x00", b"{"]))
def test_garbage_is_damage_or_bytes(garbage: bytes, start: bytes) -> None:
    """No row of garbage raises anything else, whatever it begins with; what else is in the store says the rest."""
    column = start + garbage + b"}"
    with contextlib.suppress(Damage):
        assert column[0] == 1 or stored_envelope(column) == column
        assert column[0] != 1 or len(stored_envelope(column)) == int.from_bytes(column[1:5], "little")


@pytest.mark.parametrize("left", range(len(PACKED)))
def test_a_packed_envelope_whose_end_is_gone_is_damage(left: int) -> None:
    """As a page of zeros leaves it, or cut off: at each byte."""
    assert PACKED[0] == 1
    for column in (PACKED[:left] + bytes(len(PACKED) - left), PACKED[:left]):
        with pytest.raises(Damage):
            stored_envelope(column)


@pytest.mark.parametrize("claimed", [2**23 + 1, 2**31 - 1, 2**32 - 1])
def test_what_claims_to_be_larger_than_any_message_is_damage(claimed: int) -> None:
    """No memory is taken for it."""
    tracemalloc.start()
    with pytest.raises(Damage, match=f"{claimed} bytes"):
        stored_envelope(b"\x01" + claimed.to_bytes(4, "little") + PACKED[5:])
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@given(st.integers(0, 5_000))
def test_a_size_that_is_not_its_own_is_damage(claimed: int) -> None:
    """What a block gives is counted: neither fewer bytes than are claimed nor more are taken for the envelope."""
    size = int.from_bytes(PACKED[1:5], "little")
    column = b"\x01" + claimed.to_bytes(4, "little") + PACKED[5:]
    if claimed == size:
        assert stored_envelope(column) == stored_envelope(PACKED)
    else:
        with pytest.raises(Damage):
            stored_envelope(column)


@given(st.integers(0, 255).filter(lambda first: bytes([first]) not in (b"{", b"\x01")))
def test_a_form_that_nobody_wrote_is_damage(first: int) -> None:
    """Whatever else a row begins with."""
    with pytest.raises(Damage, match=f"the byte {first}"):
        stored_envelope(bytes([first]) + b'"n":1}')
