"""One `GET /health` over a Unix socket."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from shared.problems import Problem
from shared.strict_json import decode_object

TIMEOUT_SECONDS: Final = 2.0
"""A healthy process answers in milliseconds; one that needs longer is not ready, whatever it would say."""


@dataclass(frozen=True, slots=True)
class Health:
    """What a process says of itself. `reason` tells why it is not ready; `body` is empty when it cannot be reached."""

    ready: bool
    reason: str | None = None
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def pid(self) -> int | None:
        """The process that answered."""
        return self.body.get("pid")


async def health_of(socket: Path, timeout_seconds: float = TIMEOUT_SECONDS) -> Health:
    """Ask once; never raises for a process that is away, slow or talks nonsense."""
    try:
        async with asyncio.timeout(timeout_seconds):
            status, body = await _get(socket)
    except TimeoutError:
        return Health(ready=False, reason=f"no answer at {socket} within {timeout_seconds:g} s")
    except (OSError, aiohttp.ClientError):
        return Health(ready=False, reason=f"nothing answers at {socket}")
    except Problem as problem:
        return Health(ready=False, reason=f"the answer at {socket} is no health document: {problem.detail}")
    if status == 200:
        return Health(ready=True, body=body)
    reason = body.get("reason") or body.get("detail") or f"the process says status {status}"
    return Health(ready=False, reason=str(reason), body=body)


async def _get(socket: Path) -> tuple[int, dict[str, Any]]:
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=str(socket))) as session,
        session.get("http://unix/health") as response,
    ):
        return response.status, decode_object(await response.read())
