"""Canonical JSON equals RFC 8785 as the `rfc8785` package and node.js understand it, and so do signatures."""

import math
import random
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from shared.canonical import canonical
from shared.keys import Key, Keyring
from shared.limits import INTEGER_MAX
from shared.signing import sign_envelope, verify_envelope
from shared.strict_json import decode, encode

DOCUMENTS = 30_000
NOW_US = 1_700_000_000_123_456
KEY = Key("pm-1", bytes(range(32)))

_ALPHABETS = (
    (0x20, 0x7E),  # ASCII
    (0x01, 0x1F),  # control characters
    (0x7F, 0x9F),
    (0xA0, 0x7FF),
    (0x2028, 0x2029),  # separators that JavaScript once took for line ends
    (0xE000, 0xFFFF),  # after the surrogates: sorts after astral characters by UTF-16 units, before them by code point
    (0x1F600, 0x1F64F),
    (0x10000, 0x10FFFF),
)


def node(lines: list[bytes]) -> list[bytes]:
    """What the node program says to each line."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not on the PATH: equality with node.js was not checked")
    script = Path(__file__).with_name("canonical.mjs")
    done = subprocess.run(  # noqa: S603 - a fixed program and our own script
        [program, script], input=b"\n".join(lines), capture_output=True, check=True, timeout=100
    )
    return done.stdout.rstrip(b"\n").split(b"\n")


def some_text(rng: random.Random) -> str:
    """A text of up to eight characters, each from a random alphabet."""
    return "".join(chr(rng.randint(*rng.choice(_ALPHABETS))) for _ in range(rng.randint(0, 8)))


def some_float(rng: random.Random) -> float:
    """A finite double of random bits, or one near the borders where notations change."""
    if rng.random() < 0.3:
        number = rng.choice((1.0, 10.0, 0.1, 1e20, 1e21, 1e22, 1e-6, 1e-7, 2.0**53, 5e-324)) * rng.randint(1, 9)
    else:
        number = struct.unpack("<d", rng.randbytes(8))[0]
    return number if math.isfinite(number) and number != 0 else 0.5


def some_value(rng: random.Random, depth: int) -> Any:
    """A random JSON value at most `depth` levels deep."""
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind == 1:
        return rng.randint(-INTEGER_MAX, INTEGER_MAX) >> rng.randint(0, 53)
    if kind == 2:
        return some_float(rng)
    if kind <= 4:
        return some_text(rng)
    width = rng.choice((0, 1, 2, 3, 5, 8))
    if kind == 5:
        return [some_value(rng, depth - 1) for _ in range(width)]
    return {some_text(rng): some_value(rng, depth - 1) for _ in range(width)}


def some_documents() -> list[Any]:
    """The random documents, the same in every run; a few are as deep and as wide as any body may be."""
    rng = random.Random("canonical")
    found = [some_value(rng, rng.choice((1, 2, 3))) for _ in range(DOCUMENTS - 20)]
    for _ in range(10):
        deep: Any = some_text(rng)
        for level in range(64):
            deep = [deep] if level % 2 else {some_text(rng): deep}
        found += [deep, {some_text(rng): some_float(rng) for _ in range(1_000)}]
    return found


@pytest.mark.node
def test_random_documents_equal_node_and_the_rfc8785_package() -> None:
    """30,000 random documents have the same canonical bytes in three implementations."""
    documents = some_documents()
    ours = [canonical(document) for document in documents]
    assert ours == [rfc8785.dumps(document) for document in documents]
    assert ours == node([encode(["canonical", document]) for document in documents])


def test_the_canonical_form_is_stable_under_decoding() -> None:
    """What strict JSON reads from a canonical form has that canonical form, in whatever order its keys came."""
    rng = random.Random("stable")
    for _ in range(2_000):
        document = {some_text(rng): some_text(rng) for _ in range(8)} | {"n": rng.randint(-INTEGER_MAX, INTEGER_MAX)}
        shuffled = dict(rng.sample(list(document.items()), len(document)))
        assert canonical(decode(canonical(document))) == canonical(shuffled) == canonical(document)


@pytest.mark.node
def test_signatures_cross_to_node_and_back() -> None:
    """What node signs verifies here, and what is signed here has the MAC that node computes."""
    rng = random.Random("signatures")
    keyring = Keyring("pm", (KEY,))
    unsigned = [{"to": "@qa", "payload": some_value(rng, 3), "n": some_float(rng)} for _ in range(200)]
    ours = [sign_envelope(envelope, KEY, NOW_US) for envelope in unsigned]
    macs = node([encode(["sign", envelope, KEY.secret.hex()]) for envelope in ours])
    assert [envelope["signature"]["value"].encode() for envelope in ours] == macs
    for envelope, mac in zip(ours, macs, strict=True):
        theirs = {**envelope, "signature": {**envelope["signature"], "value": mac.decode()}}
        assert verify_envelope(theirs, keyring, NOW_US) is None


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_of_rfc_8785_appendix_b(bits: str, text: str) -> None:
    """The number samples of RFC 8785, appendix B, serialise as printed there."""
    assert canonical(struct.unpack(">d", bytes.fromhex(bits))[0]) == text.encode()


def test_sorting_of_rfc_8785_section_3_2_3() -> None:
    """Keys are sorted by UTF-16 code units, as in the RFC's example."""
    document = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    assert list(decode(canonical(document)).values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


def test_the_sample_of_rfc_8785_section_3_2_2() -> None:
    """The RFC's sample object has the bytes of its section 3.2.4."""
    document = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": '\u20ac$\u000f\nA\'B"\\\\"/',
        "literals": [None, True, False],
    }
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical(document) == expected.encode()


def test_composed_and_decomposed_texts_stay_apart() -> None:
    """Canonicalisation does not normalise Unicode: two spellings of one letter are two values."""
    assert canonical("\u00e9") != canonical("e\u0301")
