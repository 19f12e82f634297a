"""Two ways to a deployment: straight to the adapter as a sidecar speaks, and through sidecars as an agent speaks.

A way makes requests and reads answers; it sends nothing itself. What it makes before a timed section costs that section
nothing: signatures hold for `SIGNATURE_AGE_SECONDS_MAX`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import orjson

from bench.client import Response, request_bytes
from bench.messages import Message
from shared.clock import Clock
from shared.config import Config
from shared.keys import load_keyring
from shared.link import ACK_PATH, MESSAGES_PATH, POLL_PATH
from shared.signing import ANSWER_HEADER, REQUEST_HEADER, sign_envelope, sign_request, verify_answer
from shared.strict_json import encode


class Unexpected(Exception):  # noqa: N818 - a finding about the deployment, which ends the workload
    """An answer that no working deployment gives."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, ready to leave: its bytes, whose it is, the messages it carries, its signature on the link."""

    wire: bytes
    agent: str
    keys: tuple[str, ...] = ()
    signature: str = ""


@dataclass(frozen=True, slots=True)
class SendOutcome:
    """What became of one send: the status it has, or had alone, and the place it got."""

    code: int
    channel: str = ""
    sequence: int = 0


class Way(Protocol):
    """How a client reaches a deployment."""

    name: ClassVar[str]
    coalesces: ClassVar[bool]
    """Whether sends of one agent that wait together leave in one request."""

    def socket(self, agent: str) -> Path:
        """Where requests of `agent` go."""

    def send(self, messages: Sequence[Message]) -> Request:
        """Send messages of one sender; more than one only where the way coalesces."""

    def poll(self, agent: str, count: int, wait_seconds: float, acks: Sequence[str] = ()) -> Request:
        """Ask for up to `count` messages, and say that those of `acks` are processed."""

    def ack(self, agent: str, delivery_ids: Sequence[str]) -> Request:
        """Say that these are processed."""

    def read(self, request: Request, response: Response) -> dict[str, Any]:
        """The document of an answer; raises `Unexpected` for one that is no success."""

    def outcomes(self, request: Request, response: Response) -> list[SendOutcome]:
        """What became of each send of a request."""


class AdapterWay:
    """The signed link, as a sidecar speaks it: one connection per agent, and what waits leaves in one request."""

    name: ClassVar[str] = "adapter"
    coalesces: ClassVar[bool] = True

    def __init__(self, config: Config) -> None:
        self._socket = config.adapter_socket
        self._keyrings = {agent: load_keyring(config.paths.keys, agent) for agent in config.agents}
        self._clock = Clock()

    def socket(self, agent: str) -> Path:
        """The adapter's, for every agent."""
        del agent
        return self._socket

    def send(self, messages: Sequence[Message]) -> Request:
        """Signed envelopes in a signed request."""
        sender = messages[0].sender
        key, now_us = self._keyrings[sender].current, self._clock.wall_us()
        envelopes = [sign_envelope({**message.content, "sender": sender}, key, now_us) for message in messages]
        keys = tuple(message.key for message in messages)
        return self.request(sender, "POST", MESSAGES_PATH, {"envelopes": envelopes}, keys)

    def poll(self, agent: str, count: int, wait_seconds: float, acks: Sequence[str] = ()) -> Request:
        """See `Way`."""
        return self.request(agent, "POST", POLL_PATH, _poll(count, wait_seconds, acks))

    def ack(self, agent: str, delivery_ids: Sequence[str]) -> Request:
        """See `Way`."""
        return self.request(agent, "POST", ACK_PATH, {"delivery_ids": list(delivery_ids)})

    def read(self, request: Request, response: Response) -> dict[str, Any]:
        """See `Way`; the answer's signature is checked first, as a sidecar does."""
        key = self._keyrings[request.agent].current
        stated = response.header(ANSWER_HEADER)
        if not verify_answer(key, request.signature, response.status, response.body, stated):
            raise Unexpected(f"an answer of the adapter is not signed: status {response.status}")
        return _success(response)

    def outcomes(self, request: Request, response: Response) -> list[SendOutcome]:
        """See `Way`."""
        outcomes = self.read(request, response)["outcomes"]
        return [_outcome(outcome["code"], outcome.get("answer") or {}) for outcome in outcomes]

    def request(
        self, agent: str, method: str, path: str, document: dict[str, Any] | None = None, keys: tuple[str, ...] = ()
    ) -> Request:
        """Any signed request of the link, about the messages of these keys."""
        body = b"" if document is None else encode(document)
        signature = sign_request(method, path, body, self._keyrings[agent], self._clock.wall_us())
        return Request(request_bytes(method, path, body, {REQUEST_HEADER: signature}), agent, keys, signature)


class SidecarWay:
    """The agents' API on the Unix sockets of the sidecars: a request for each send, as agents make them."""

    name: ClassVar[str] = "sidecar"
    coalesces: ClassVar[bool] = False

    def __init__(self, config: Config) -> None:
        self._config = config

    def socket(self, agent: str) -> Path:
        """That of the agent's own sidecar."""
        return self._config.sidecar_socket(agent)

    def send(self, messages: Sequence[Message]) -> Request:
        """One plain message."""
        (message,) = messages
        wire = request_bytes("POST", "/v1/messages", encode(message.content))
        return Request(wire, message.sender, (message.key,))

    def poll(self, agent: str, count: int, wait_seconds: float, acks: Sequence[str] = ()) -> Request:
        """See `Way`."""
        body = encode(_poll(count, wait_seconds, acks))
        return Request(request_bytes("POST", "/v1/messages/receive", body), agent)

    def ack(self, agent: str, delivery_ids: Sequence[str]) -> Request:
        """See `Way`."""
        body = encode({"delivery_ids": list(delivery_ids)})
        return Request(request_bytes("POST", "/v1/messages/ack", body), agent)

    def read(self, request: Request, response: Response) -> dict[str, Any]:
        """See `Way`."""
        del request
        return _success(response)

    def outcomes(self, request: Request, response: Response) -> list[SendOutcome]:
        """See `Way`."""
        return [_outcome(response.status, self.read(request, response))]


WAYS: Final[dict[str, Callable[[Config], Way]]] = {AdapterWay.name: AdapterWay, SidecarWay.name: SidecarWay}


def _poll(count: int, wait_seconds: float, acks: Sequence[str]) -> dict[str, Any]:
    asked = {"wait": wait_seconds, "max": count}
    return {**asked, "acks": {"delivery_ids": list(acks)}} if acks else asked


def _success(response: Response) -> dict[str, Any]:
    if not 200 <= response.status < 300:
        raise Unexpected(f"status {response.status}: {response.body[:300].decode('utf-8', 'replace')}")
    document: dict[str, Any] = orjson.loads(response.body)
    return document


def _outcome(code: int, answer: dict[str, Any]) -> SendOutcome:
    return SendOutcome(code, answer.get("channel", ""), answer.get("channel_sequence_id", 0))
