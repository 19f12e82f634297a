"""An agent's own outbox: sends that wait in its sidecar for the adapter, and those that the adapter then refused."""

from typing import Any, Final
from urllib.parse import quote

from multiclaw.client.encoding import encode
from multiclaw.client.identifiers import new_key
from multiclaw.client.transport import Transport

_PATH: Final = "/v1/outbox"


class Outbox:
    """What waits, what was refused, and what to do about either. Works while the adapter is away.

    Answers are as the API gives them; times are RFC 3339.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def waiting(self, *, limit: int = 100, after: str | None = None) -> dict[str, Any]:
        """Sends that wait, in the order in which they leave; `next` of the answer is `after` of the next page."""
        return await self._page(_PATH, limit, after)

    async def dead(self, *, limit: int = 100, after: str | None = None) -> dict[str, Any]:
        """Sends that the adapter refused for good, each with its `problem`; in the order in which they were refused."""
        return await self._page(f"{_PATH}/dead", limit, after)

    async def read(self, key: str) -> dict[str, Any]:
        """One of either, with its message."""
        return dict(await self._transport.get(_one(key)))

    async def resend(self, key: str, *, under_new_key: bool = False) -> dict[str, Any]:
        """Put a refused send behind all that wait; the answer has its position and its key.

        Under a new key the adapter takes it for another message: for one whose key it knows with other content, or
        one that you mean to happen even if it has happened already.
        """
        body = {"new_key": new_key()} if under_new_key else {}
        return dict(await self._transport.post(f"{_one(key)}/resend", encode(body)))

    async def drop(self, key: str) -> dict[str, Any]:
        """Throw one away, for good. Raises `Refused`: `in-flight` for one that is being sent just now.

        One that waited may have arrived all the same, by an earlier try whose answer was lost.
        """
        return dict(await self._transport.call("DELETE", _one(key)))

    async def _page(self, path: str, limit: int, after: str | None) -> dict[str, Any]:
        query: dict[str, str | int] = {"limit": limit} | ({} if after is None else {"after": after})
        return dict(await self._transport.get(path, query))


def _one(key: str) -> str:
    return f"{_PATH}/{quote(key, safe='')}"
