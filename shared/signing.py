"""HMAC-SHA256 over RFC 8785 canonical JSON, three times over: envelopes, requests on the link, and its answers.

- An **envelope** is signed by the sender's sidecar and stored with its signature.
- Each **request** on the link proves which agent's sidecar speaks.
- Each **answer** is signed with the requester's key over the digest of its body and the request's signature: what
  the adapter delivers is authentic, and an old answer cannot be played again.

Comparison is in constant time. A missing key is a refusal, never "unsigned, fine".
"""

import hmac
from typing import Any, Final

import orjson

from shared.canonical import canonical
from shared.digests import sha256
from shared.keys import Key, Keyring
from shared.limits import SIGNATURE_AGE_SECONDS_MAX
from shared.problems import Problem
from shared.times import MICROSECONDS, from_iso, iso

ALGORITHM: Final = "HMAC-SHA256"
REQUEST_HEADER: Final = "Multiclaw-Signature"
ANSWER_HEADER: Final = "Multiclaw-Answer-Signature"


def sign_envelope(envelope: dict[str, Any], key: Key, now_us: int) -> dict[str, Any]:
    """The envelope with a fresh `signature`; one it carried before is replaced."""
    signature = {"key_id": key.key_id, "alg": ALGORITHM, "signed_at": iso(now_us)}
    unsigned = {**envelope, "signature": signature}
    return {**envelope, "signature": {**signature, "value": _mac(key, canonical(unsigned))}}


def verify_envelope(envelope: dict[str, Any], keyring: Keyring, now_us: int) -> None:
    """Raise a `Problem` unless the envelope was signed just now with a key of `keyring`."""
    signature = envelope.get("signature")
    if not isinstance(signature, dict):
        raise Problem("signature-invalid", "The envelope carries no signature.", field="/signature")
    key = keyring.find(str(signature.get("key_id")))
    if key is None or signature.get("alg") != ALGORITHM:
        detail = f"No key {signature.get('key_id')!r} of {keyring.agent!r} for {signature.get('alg')!r}."
        raise Problem("signature-invalid", detail, field="/signature/key_id")
    stated = str(signature.get("value"))
    unsigned = {**envelope, "signature": {k: v for k, v in signature.items() if k != "value"}}
    if not _same(stated, _mac(key, canonical(unsigned))):
        raise Problem("signature-invalid", "The envelope is not what was signed.", field="/signature/value")
    _check_age(str(signature.get("signed_at")), now_us, "/signature/signed_at")


def sign_request(method: str, target: str, body: bytes, keyring: Keyring, now_us: int) -> str:
    """The value of the request header: agent, key id, time and MAC, parted by spaces."""
    signed_at = iso(now_us)
    key = keyring.current
    mac = _mac(key, _request_bytes(keyring.agent, signed_at, method, target, body))
    return f"{keyring.agent} {key.key_id} {signed_at} {mac}"


def verify_request(
    header: str | None, method: str, target: str, body: bytes, keyrings: dict[str, Keyring], now_us: int
) -> tuple[str, Key]:
    """The agent whose sidecar made this request, and the key that answers it; or a `Problem`."""
    where = f"header {REQUEST_HEADER}"
    if not f"{header}{method}{target}".isascii():  # undecodable bytes arrive as lone surrogates, which no form holds
        raise Problem("signature-invalid", "The signature and the request line must be ASCII.", field=where)
    parts = (header or "").split(" ")
    if len(parts) != 4:
        raise Problem("unauthenticated", "The request carries no signature.", field=where)
    agent, key_id, signed_at, stated = parts
    keyring = keyrings.get(agent)
    key = keyring.find(key_id) if keyring else None
    if key is None or not _same(stated, _mac(key, _request_bytes(agent, signed_at, method, target, body))):
        raise Problem("signature-invalid", "The request is not what was signed, or its key is unknown.", field=where)
    _check_age(signed_at, now_us, where)
    return agent, key


def sign_answer(key: Key, request_signature: str, status: int, body: bytes) -> str:
    """The value of the answer header."""
    return _mac(key, _answer_bytes(request_signature, status, body))


def verify_answer(key: Key, request_signature: str, status: int, body: bytes, stated: str | None) -> bool:
    """Whether the holder of our key gave this answer to this very request."""
    return _same(stated or "", _mac(key, _answer_bytes(request_signature, status, body)))


def _request_bytes(agent: str, signed_at: str, method: str, target: str, body: bytes) -> bytes:
    """Canonical as it stands: sorted keys and plain strings, in compact form."""
    digest = sha256(body).hexdigest()
    return orjson.dumps(
        {"agent": agent, "body_sha256": digest, "method": method, "signed_at": signed_at, "target": target}
    )


def _answer_bytes(request_signature: str, status: int, body: bytes) -> bytes:
    """Canonical as it stands, like `_request_bytes`."""
    return orjson.dumps({"body_sha256": sha256(body).hexdigest(), "request": request_signature, "status": status})


def _mac(key: Key, message: bytes) -> str:
    return key.mac.hexdigest(message)


def _same(stated: str, computed: str) -> bool:
    return hmac.compare_digest(stated.encode("utf-8", "replace"), computed.encode("ascii"))


def _check_age(signed_at: str, now_us: int, field: str) -> None:
    try:
        age_us = now_us - from_iso(signed_at)
    except ValueError as error:
        raise Problem("signature-invalid", f"The time of signing is unreadable: {error}.", field=field) from error
    if abs(age_us) > SIGNATURE_AGE_SECONDS_MAX * MICROSECONDS:
        detail = f"The signature is {age_us / MICROSECONDS:.0f} s old; sign again and retry."
        raise Problem("signature-stale", detail, field=field)
