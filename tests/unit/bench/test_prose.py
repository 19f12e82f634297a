"""The text of the bench's messages is neither easier nor harder to compress than what agents write."""

import zlib

from bench.messages import make_message
from bench.prose import TEXTS, prose
from shared.strict_json import encode


def test_messages_compress_as_recorded_ones_do():
    """Level 1 of zlib makes 0.46 of recorded ones of that size, and about that of each of these."""
    for _ in range(TEXTS):
        content = encode(make_message("pm", "@qa").content)
        assert 0.40 < len(zlib.compress(content, 1)) / len(content) < 0.52


def test_no_text_is_said_twice_before_all_are_said():
    """What packs several messages together finds no message in another."""
    texts = [make_message("pm", "@qa").content["payload"]["text"] for _ in range(TEXTS)]
    assert len(set(texts)) == TEXTS


def test_a_text_is_the_same_each_time():
    """So figures of two runs are of the same bytes."""
    first = prose(7)
    prose.cache_clear()
    assert prose(7) == first
