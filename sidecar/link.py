"""The link: signed requests to the adapter over its Unix socket, and answers that are believed only when signed.

An answer that is not signed with our key for this very request tells nothing, whatever its status: it counts as no
answer. While the breaker is open a request is not sent at all.
"""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import orjson

from shared.clock import Clock
from shared.keys import Key, Keyring
from shared.signing import ANSWER_HEADER, REQUEST_HEADER, sign_request, verify_answer
from sidecar.breaker import LinkBreaker
from sidecar.core.link_outcome import LINK_FAILURES, LinkAnswer, Verdict, classify
from sidecar.counters import Counters
from sidecar.wire import BrokenError, NotConnectedError, Wire

_log = logging.getLogger(__name__)

_SHUT_OUT: Final = "unauthenticated"
"""What the adapter says, sealed, to whoever was removed."""

_ANSWER_HEADER: Final = ANSWER_HEADER.lower()

_STOP_SECONDS: Final = 1.0
"""What open requests get when the process stops: two seconds are all it has, and queueing comes after."""


class Link:
    """One sidecar's way to the adapter; `close` it after use.

    `shut_out` is why the adapter does not take this agent for one of the deployment, as it said last; None if it does.
    `bad_answer_us` is when an answer was last not signed with our key, by the steady clock, and `believed` whether one
    was since; `changed` is called when they change.
    """

    def __init__(
        self,
        socket_path: Path,
        keyring: Keyring,
        clock: Clock,
        breaker: LinkBreaker,
        counters: Counters,
        timeout_seconds: float,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._wire = Wire(socket_path)
        self._keyring = keyring
        self._clock = clock
        self._breaker = breaker
        self._counters = counters
        self._timeout_seconds = timeout_seconds
        self._open_requests: set[asyncio.Timeout] = set()
        self._stopping = False
        self._changed = changed
        self.shut_out: str | None = None
        self.bad_answer_us: int | None = None
        self.believed = False

    @property
    def key(self) -> Key:
        """The key that signs envelopes."""
        return self._keyring.current

    async def close(self) -> None:
        """Drop every connection."""
        await self._wire.close()

    def stop(self) -> None:
        """The process ends: open requests get a moment, later ones no more than that."""
        self._stopping = True
        latest = asyncio.get_running_loop().time() + _STOP_SECONDS
        for deadline in self._open_requests:
            if deadline.expired():  # in this very turn: it has fired and is not let go yet
                continue
            deadline.reschedule(min(deadline.when() or latest, latest))

    async def call(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        wait_seconds: float = 0.0,
        give_up: "asyncio.Future[None] | None" = None,
    ) -> LinkAnswer:
        """One signed request. `target` is path and query, percent-encoded; it never raises for what the link does.

        The answer may take `wait_seconds` longer than the link's timeout. Once `give_up` is done the adapter sees the
        request end; an answer that was on its way is still returned, and none at all is no failure of the link.
        """
        if not self._breaker.closed:
            return LinkAnswer(Verdict.UNREACHABLE)
        period = self._breaker.period
        self._counters.link_requests += 1
        answer = await self._exchange(method, target, body, self._timeout_seconds + wait_seconds, give_up)
        if answer.verdict not in LINK_FAILURES:
            self._breaker.succeeded(period)
        elif give_up is None or not give_up.done():
            self._counters.link_failures += 1
            self._breaker.failed(period)
        return answer

    async def is_ready(self) -> bool:
        """Whether the adapter says that it takes messages. Not gated: this is the probe."""
        try:
            async with self._deadline(self._timeout_seconds):
                return (await self._wire.exchange("GET", "/health", {}, b"")).status == HTTPStatus.OK
        except (NotConnectedError, BrokenError, TimeoutError):
            return False

    async def _exchange(
        self, method: str, target: str, body: bytes, seconds: float, give_up: "asyncio.Future[None] | None"
    ) -> LinkAnswer:
        signature = sign_request(method, target, body, self._keyring, self._clock.wall_us())
        headers = {REQUEST_HEADER: signature, "Content-Type": "application/json"}
        try:
            async with self._deadline(seconds):
                answer = await self._wire.exchange(method, target, headers, body, give_up)
        except NotConnectedError:
            return LinkAnswer(classify(None, connected=False))
        except (BrokenError, TimeoutError):
            return LinkAnswer(classify(None))
        return self._judge(signature, answer.status, answer.body, answer.headers.get(_ANSWER_HEADER))

    def _judge(self, signature: str, status: int, content: bytes, stated: str | None) -> LinkAnswer:
        if not verify_answer(self.key, signature, status, content, stated):
            self._counters.answers_unverified += 1
            self.bad_answer_us, self.believed = self._clock.steady_us(), False
            self._changed()
            _log.warning("answer-unverified: status %d; not believed", status)
            return LinkAnswer(classify(status, verified=False), status)
        if not self.believed:
            self.believed = True
            self._changed()
        document = _object(content)
        if document is None:
            return LinkAnswer(classify(None), status)
        self.shut_out = document.get("detail") if document.get("type") == _SHUT_OUT else None
        return LinkAnswer(classify(status, retryable=document.get("retryable") is True), status, document)

    def _deadline(self, seconds: float) -> "_Deadline":
        return _Deadline(min(seconds, _STOP_SECONDS) if self._stopping else seconds, self._open_requests)


class _Deadline:
    """`asyncio.timeout` that the link can find, to shorten it when the process stops."""

    def __init__(self, seconds: float, register: set[asyncio.Timeout]) -> None:
        self._timeout = asyncio.timeout(seconds)
        self._register = register

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._register.add(self._timeout)

    async def __aexit__(self, *raised: object) -> None:
        self._register.discard(self._timeout)
        await self._timeout.__aexit__(*raised)  # type: ignore[arg-type]  # passed through as they came


def _object(content: bytes) -> dict[str, Any] | None:
    """The JSON object of a verified answer; the adapter made it, so the plain parser does."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None
