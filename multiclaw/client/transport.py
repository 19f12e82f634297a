"""HTTP to one sidecar: one place that knows aiohttp, what its failures mean, and when a call is made again."""

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp

from multiclaw.client.discovery import Endpoint
from multiclaw.client.errors import ConfigurationError, MulticlawError, SidecarError, from_problem, unreachable
from multiclaw.client.retry import RetryPolicy

_CONNECTIONS_MAX: Final = 100
_JSON: Final = "application/json"

ONCE: Final = RetryPolicy(retry_seconds=0.0)
"""For calls whose failure costs nothing: leases that are not given back end by themselves."""


class Transport:
    """Requests to one sidecar, over connections that are kept. Make it inside the event loop; it sends nothing yet.

    `request_seconds` is how long one answer may take; `chance` gives numbers in [0, 1) for the jitter of waits.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        retry: RetryPolicy,
        request_seconds: float,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.endpoint = endpoint
        self.retry = retry
        self.chance = chance
        self._request_seconds = request_seconds
        path, token = endpoint.socket, endpoint.token
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_CONNECTIONS_MAX)
            if path is None
            else aiohttp.UnixConnector(str(path), limit=_CONNECTIONS_MAX),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": _JSON} | ({} if token is None else {"Authorization": f"Bearer {token}"}),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def post(self, path: str, body: bytes, retry: RetryPolicy | None = None) -> Any:
        """The answer to a POST that may safely be made twice."""
        return await self.call("POST", path, body, retry)

    async def get(self, path: str, query: Mapping[str, str | int | float] | None = None) -> Any:
        """The answer to a GET."""
        return await self.call("GET", path + ("?" + urlencode(query) if query else ""))

    async def call(self, method: str, target: str, body: bytes | None = None, retry: RetryPolicy | None = None) -> Any:
        """The answer, however many attempts it takes within the policy; raises the last attempt's error.

        The same bytes are sent every time, so a send keeps its idempotency key.
        """
        policy = retry or self.retry
        clock = asyncio.get_running_loop().time
        begun = clock()
        for attempt in itertools.count(1):
            try:
                return await self.once(method, target, body)
            except SidecarError as error:
                error.attempts = attempt
                wait = policy.wait(attempt, self.chance(), clock() - begun, error.retry_after)
                if not error.retryable or wait is None:
                    raise
            await asyncio.sleep(wait)
        raise AssertionError  # counting does not end

    async def once(self, method: str, target: str, body: bytes | None = None, patience: float = 0.0) -> Any:
        """One attempt: the decoded answer of a 2xx, else the error that it stands for.

        `patience` is how many seconds more than usual the answer may take.
        """
        status, headers, data = await self._exchange(method, target, body, self._request_seconds + patience)
        document = _decode(data)
        if 200 <= status < 300 and document is not None:
            return document
        if status < 400 or (document is None and status < 500):
            detail = f"what answers at {self.endpoint} is not a sidecar: {status} {data[:80]!r}"
            raise unreachable(detail, retryable=False)
        raise _problem(status, headers, document)

    async def _exchange(
        self, method: str, target: str, body: bytes | None, seconds: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        timeout = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._session.request(
                method, self.endpoint.url + target, data=body, timeout=timeout, allow_redirects=False
            ) as response:
                return response.status, response.headers, await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._failure(error, seconds) from error

    def _failure(self, error: Exception, seconds: float) -> MulticlawError:
        """What a failed exchange means: nearly always that a later attempt may do better."""
        if isinstance(error, TimeoutError):
            return unreachable(f"the sidecar at {self.endpoint} gave no answer within {seconds:g} s")
        if isinstance(error, aiohttp.InvalidURL):
            return ConfigurationError(f"{self.endpoint} is no address: {error}")
        if isinstance(error, aiohttp.ClientConnectorError):
            if isinstance(error.os_error, PermissionError):
                return ConfigurationError(
                    f"this user may not connect to {self.endpoint}; run as the user of the deployment"
                )
            reason = error.os_error.strerror or str(error.os_error)
            return unreachable(
                f"no sidecar answers at {self.endpoint} ({reason}); "
                f"start it with: multiclaw sidecar --agent {self.endpoint.agent}"
            )
        return unreachable(
            f"the answer of the sidecar at {self.endpoint} was lost: {str(error) or type(error).__name__}"
        )


def _decode(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _problem(status: int, headers: Mapping[str, str], document: Any) -> SidecarError:
    """The error of a 4xx or 5xx. A 502, 503 or 504 without a problem document comes from something in between."""
    members = document if isinstance(document, dict) else {"retryable": status in {502, 503, 504}}
    after = headers.get("Retry-After", "")
    if "retry_after" not in members and after.isascii() and after.isdecimal():
        members = {**members, "retry_after": float(after)}
    return from_problem(status, members)
