"""The forms of an envelope in its row stay readable: stores are older than programs."""

import pytest

from adapter.store.envelopes import stored_envelope

ENVELOPE = b'{"payload":{"text":"over and over, over and over, over and over, over and over, over and over"}}'

COLUMNS = {
    "plain": ENVELOPE,
    "packed": bytes.fromhex(
        "0160000000f1137b227061796c6f6164223a7b2274657874223a226f76657220616e64206f7665722c06000f0f0021506572227d7d"
    ),
}
"""As versions 1 and 2 of the store hold it. Never edit one: rows that were written so are out there."""


@pytest.mark.parametrize("form", COLUMNS)
def test_each_form_that_was_ever_written_is_read(form: str) -> None:
    """Whatever the present program writes, and with whichever release of LZ4."""
    assert stored_envelope(COLUMNS[form]) == ENVELOPE
