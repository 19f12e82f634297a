"""The topology: who belongs to the deployment, and, for the orchestrator, proposals to change that."""

from collections.abc import Mapping
from typing import Any, Final

from multiclaw.client.encoding import encode
from multiclaw.client.transport import Transport

_PATH: Final = "/v1/topology"


class Topology:
    """What an agent can see of the topology, and what the orchestrator can propose; a human decides.

    Answers are as the API gives them. `state` of a version is `proposed`, `current`, `superseded`, `denied` or `stale`.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def current(self) -> dict[str, Any]:
        """The version in force."""
        return dict(await self._transport.get(_PATH))

    async def version(self, number: int) -> dict[str, Any]:
        """One version, whatever became of it."""
        return dict(await self._transport.get(f"{_PATH}/versions/{number}"))

    async def versions(self, *, before: int | None = None, limit: int = 100) -> dict[str, Any]:
        """The newest first, at most `limit`; `next` of the answer is `before` of the next."""
        query: dict[str, str | int | float] = {"limit": limit} if before is None else {"limit": limit, "before": before}
        return dict(await self._transport.get(f"{_PATH}/versions", query))

    async def propose(self, change: Mapping[str, Any], reason: str) -> dict[str, Any]:
        """Propose a change to a human; the proposal as a version. Only the orchestrator may.

        `change` has `agents` with `add` (name to `role` and `port`) and `remove`, and `channels` with `add` (name to
        `members`), `change` (name to `add` and `remove`) and `remove`; what is left out stays as it is.
        """
        body = encode({"change": dict(change), "reason": reason})
        return dict(await self._transport.post(f"{_PATH}/proposals", body))
