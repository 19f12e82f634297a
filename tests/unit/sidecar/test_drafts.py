"""Drafts: what leaves is what was written, stamped."""

from typing import Any

import pytest

from shared.limits import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from shared.problems import Problem
from shared.strict_json import decode
from sidecar.core.drafts import Draft, count_to_send, make_draft

_KEY = "00000000-0000-7000-8000-000000000001"
_BODY = {"to": "product", "type": "note/1", "payload": {"b": 1, "a": [None, "ü"]}}


def _draft(body: dict[str, Any], header: str | None = None, bytes_max: int = 10_000) -> Draft:
    return make_draft(body, header, agent="pm", bytes_max=bytes_max, new_key=lambda: _KEY)


def test_a_draft_is_the_body_stamped() -> None:
    """Content is untouched, in its order; key and sender are ours; the encoded form is the same value."""
    draft = _draft(_BODY | {"context": None, "sender": "pm"})
    assert draft.envelope == _BODY | {"idempotency_key": _KEY, "sender": "pm"}
    assert decode(draft.encoded) == draft.envelope


def test_the_size_limit_counts_encoded_bytes() -> None:
    """At the limit it passes; one byte more is refused with both numbers."""
    size = len(_draft(_BODY).encoded)
    assert _draft(_BODY, bytes_max=size)
    with pytest.raises(Problem, match=f"{size} bytes, and the limit is {size - 1}") as refusal:
        _draft(_BODY, bytes_max=size - 1)
    assert refusal.value.kind == "message-too-large"


def test_brackets_in_texts_are_no_depth() -> None:
    """Many brackets that do not nest, and any number of them in a text, are no deep message."""
    assert _draft(_BODY | {"payload": [[]] * 500 + ["[" * 500]})


def test_batches_are_bounded_by_count_and_bytes() -> None:
    """A hundred at most, eight megabytes at most, and at least one, so that nothing is ever stuck."""
    assert count_to_send([]) == 0
    assert count_to_send([10] * 500) == BATCH_MESSAGES_MAX
    assert count_to_send([BATCH_BYTES_MAX * 2, 10]) == 1
    assert count_to_send([10, BATCH_BYTES_MAX]) == 1
    count = count_to_send([94_000] * 100)
    assert 80 < count < 100
    assert count * 94_000 < BATCH_BYTES_MAX
