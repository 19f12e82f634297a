"""Signatures: whatever is changed breaks them, whatever is sent never breaks us."""

import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import signing
from shared.keys import Key, Keyring
from shared.problems import Problem
from shared.signing import sign_answer, sign_envelope, sign_request, verify_answer, verify_envelope, verify_request
from shared.times import iso

NOW_US = 1_700_000_000_123_456
SECOND_US = 1_000_000
PM = Keyring("pm", (Key("pm-2", b"n" * 32), Key("pm-1", b"o" * 32)))
QA = Keyring("qa", (Key("qa-1", b"q" * 32),))
KEYRINGS = {"pm": PM, "qa": QA}
ENVELOPE = {"to": "@qa", "type": "note/1", "payload": {"text": "é", "n": [1, 2.5]}, "sender": "pm"}
REQUEST = ("POST", "/link/v1/messages?x=1", b'{"envelopes":[]}')


def envelope_refusal(envelope: dict[str, Any], keyring: Keyring = PM, now_us: int = NOW_US) -> str:
    """The kind of problem an envelope meets."""
    with pytest.raises(Problem) as caught:
        verify_envelope(envelope, keyring, now_us)
    return caught.value.kind


def request_refusal(header: str | None, request: tuple[str, str, bytes] = REQUEST, now_us: int = NOW_US) -> str:
    """The kind of problem a request meets."""
    with pytest.raises(Problem) as caught:
        verify_request(header, *request, KEYRINGS, now_us)
    return caught.value.kind


def test_an_envelope_signed_just_now_verifies() -> None:
    """Signing adds `signature` alone, and signing again replaces it."""
    signed = sign_envelope(ENVELOPE, PM.current, NOW_US)
    assert {k: v for k, v in signed.items() if k != "signature"} == ENVELOPE
    assert verify_envelope(signed, PM, NOW_US) is None
    assert sign_envelope(signed, PM.current, NOW_US) == signed


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every leaf and container of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, item in items for path in paths(item, (*at, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of `value` with `new` at `path`."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(copy[path[0]], path[1:], new)
    return copy


@given(st.data())
def test_any_change_of_an_envelope_breaks_its_signature(data: st.DataObject) -> None:
    """Replacing any part by another value, adding a field or removing one is noticed."""
    signed = sign_envelope(ENVELOPE, PM.current, NOW_US)
    path = data.draw(st.sampled_from(paths(signed)[1:]))
    new = data.draw(st.none() | st.integers(0, 9) | st.text(max_size=3) | st.lists(st.integers(0, 9), max_size=2))
    tampered = changed(signed, path, new)
    if tampered == signed:
        return
    assert envelope_refusal(tampered).startswith("signature-")
    assert envelope_refusal({**signed, data.draw(st.text("xyz", min_size=1)): 1}) == "signature-invalid"
    assert envelope_refusal({k: v for k, v in signed.items() if k != path[0]}) == "signature-invalid"


def test_a_number_and_its_text_are_not_the_same() -> None:
    """`1` and `"1"`, `true` and `1` have different signatures."""
    values = [sign_envelope({"payload": v}, PM.current, NOW_US)["signature"]["value"] for v in (1, "1", True, None)]
    assert len(set(values)) == 4


@pytest.mark.parametrize("value", [None, "x", [], {}, {"key_id": None}, {"key_id": "pm-2", "alg": "none", "value": ""}])
def test_a_missing_or_odd_signature_is_a_refusal(value: Any) -> None:
    """No shape of `signature` passes as "unsigned, fine"."""
    assert envelope_refusal({**ENVELOPE, "signature": value}) == "signature-invalid"
    assert envelope_refusal(ENVELOPE) == "signature-invalid"


def test_an_unreadable_time_is_a_refusal_even_when_signed() -> None:
    """A `signed_at` that is no time is refused although the MAC covers it."""
    for moment in ("now", "", "2023-11-14T22:13:20", "9999-99-99T99:99:99Z"):
        bare = {"key_id": "pm-2", "alg": signing.ALGORITHM, "signed_at": moment}
        mac = hmac.digest(PM.current.secret, signing.canonical({**ENVELOPE, "signature": bare}), "sha256").hex()
        assert envelope_refusal({**ENVELOPE, "signature": {**bare, "value": mac}}) == "signature-invalid"


@pytest.mark.parametrize(
    ("age_s", "fresh"), [(0, True), (300, True), (-300, True), (300.000001, False), (-300.000001, False), (5400, False)]
)
def test_signatures_age_after_300_seconds(age_s: float, fresh: bool) -> None:
    """A signature is good for 300 s in both directions, to the microsecond; after that the refusal is retryable."""
    now_us = NOW_US + round(age_s * SECOND_US)
    signed = sign_envelope(ENVELOPE, PM.current, NOW_US)
    header = sign_request(*REQUEST, PM, NOW_US)
    if fresh:
        assert verify_envelope(signed, PM, now_us) is None
        assert verify_request(header, *REQUEST, KEYRINGS, now_us) == ("pm", PM.current)
    else:
        assert envelope_refusal(signed, now_us=now_us) == "signature-stale"
        assert request_refusal(header, now_us=now_us) == "signature-stale"


def test_rotated_keys_still_verify_and_unknown_ones_do_not() -> None:
    """The first key signs, every key of the agent verifies, another agent's key never does."""
    assert sign_envelope(ENVELOPE, PM.current, NOW_US)["signature"]["key_id"] == "pm-2"
    assert verify_envelope(sign_envelope(ENVELOPE, PM.keys[1], NOW_US), PM, NOW_US) is None
    assert envelope_refusal(sign_envelope(ENVELOPE, Key("pm-3", b"n" * 32), NOW_US)) == "signature-invalid"
    assert envelope_refusal(sign_envelope(ENVELOPE, QA.current, NOW_US)) == "signature-invalid"
    assert envelope_refusal(sign_envelope(ENVELOPE, Key("pm-2", b"q" * 32), NOW_US)) == "signature-invalid"


def test_a_request_proves_its_agent() -> None:
    """A request verifies as its agent, with the key that is to sign the answer."""
    assert verify_request(sign_request(*REQUEST, PM, NOW_US), *REQUEST, KEYRINGS, NOW_US) == ("pm", PM.current)
    old = Keyring("pm", (PM.keys[1],))
    assert verify_request(sign_request(*REQUEST, old, NOW_US), *REQUEST, KEYRINGS, NOW_US) == ("pm", PM.keys[1])


@pytest.mark.parametrize(
    "request_",
    [
        ("GET", REQUEST[1], REQUEST[2]),
        (REQUEST[0], "/link/v1/messages?x=2", REQUEST[2]),
        (REQUEST[0], "/link/v1/messages", REQUEST[2]),
        (REQUEST[0], REQUEST[1], REQUEST[2] + b" "),
        (REQUEST[0], REQUEST[1], b""),
    ],
)
def test_a_request_signature_covers_method_target_and_body(request_: tuple[str, str, bytes]) -> None:
    """A signature does not carry over to another method, path, query or body."""
    assert request_refusal(sign_request(*REQUEST, PM, NOW_US), request_) == "signature-invalid"


@given(st.integers(0, 200), st.characters(min_codepoint=0x21, max_codepoint=0x7E))
def test_any_changed_character_of_the_header_is_noticed(index: int, new: str) -> None:
    """Agent, key id, time and MAC are all covered."""
    header = sign_request(*REQUEST, PM, NOW_US)
    index %= len(header)
    tampered = header[:index] + new + header[index + 1 :]
    if tampered != header:
        assert request_refusal(tampered) in {"signature-invalid", "unauthenticated"}


def test_an_agent_cannot_speak_as_another() -> None:
    """A request signed with one agent's key under another's name is refused."""
    posing = Keyring("qa", PM.keys)
    assert request_refusal(sign_request(*REQUEST, posing, NOW_US)) == "signature-invalid"
    ghost = Keyring("ghost", PM.keys)
    assert request_refusal(sign_request(*REQUEST, ghost, NOW_US)) == "signature-invalid"
    assert request_refusal(None) == request_refusal("") == "unauthenticated"


any_text = st.text(st.characters(exclude_categories=[]), max_size=30)  # lone surrogates included


@given(any_text, any_text, any_text, any_text)
def test_garbage_headers_meet_a_problem_and_nothing_else(agent: str, key_id: str, moment: str, mac: str) -> None:
    """No header text, target or method raises anything but a problem, known agent and key or not."""
    for header in (f"{agent} {key_id} {moment} {mac}", f"pm pm-2 {moment} {mac}", agent):
        assert request_refusal(header) in {"signature-invalid", "unauthenticated"}
    header = sign_request(*REQUEST, PM, NOW_US)
    assert request_refusal(header, ("POST", "/" + agent + "\udcff", b"")) == "signature-invalid"
    assert request_refusal(header, ("POST" + key_id + "\udcff", "/", b"")) == "signature-invalid"
    assert verify_answer(PM.current, header, 200, b"", mac) is False


def test_an_answer_belongs_to_one_request() -> None:
    """An answer does not verify for another request, status, body or key, nor when the header is missing."""
    header, other = (sign_request(*REQUEST, PM, NOW_US + n) for n in (0, 1))
    stated = sign_answer(PM.current, header, 200, b"{}")
    assert verify_answer(PM.current, header, 200, b"{}", stated)
    assert not verify_answer(PM.current, other, 200, b"{}", stated)
    assert not verify_answer(PM.current, header, 201, b"{}", stated)
    assert not verify_answer(PM.current, header, 200, b"{ }", stated)
    assert not verify_answer(PM.keys[1], header, 200, b"{}", stated)
    assert not verify_answer(PM.current, header, 200, b"{}", None)
    assert not verify_answer(PM.current, header, 200, b"{}", header.rpartition(" ")[2])


def test_macs_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every verification goes through `hmac.compare_digest`, whose time does not tell where two MACs part."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(stated: bytes, computed: bytes) -> bool:
        compared.append((stated, computed))
        return stated == computed

    monkeypatch.setattr(signing.hmac, "compare_digest", compare)
    header = sign_request(*REQUEST, PM, NOW_US)
    verify_envelope(sign_envelope(ENVELOPE, PM.current, NOW_US), PM, NOW_US)
    verify_request(header, *REQUEST, KEYRINGS, NOW_US)
    verify_answer(PM.current, header, 200, b"", sign_answer(PM.current, header, 200, b""))
    assert len(compared) == 3


def test_the_time_of_signing_is_whole_microseconds() -> None:
    """`signed_at` says the very microsecond it was given."""
    assert sign_envelope(ENVELOPE, PM.current, NOW_US)["signature"]["signed_at"] == "2023-11-14T22:13:20.123456Z"
    assert iso(NOW_US) == "2023-11-14T22:13:20.123456Z"
