"""Dead letters, for the orchestrator: deliveries that nobody will try again unless somebody decides so."""

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from multiclaw.client.encoding import encode
from multiclaw.client.transport import Transport

_PATH: Final = "/v1/dead-letters"

Item = tuple[str, str, int]
"""Recipient, channel and sequence: one message for one agent."""


class DeadLetters:
    """What the orchestrator can see and decide. Any other agent is refused with `not-permitted`.

    Answers are as the API gives them; times are RFC 3339. `reason` is `max-attempts`, `refused`, `expired` or
    `overflow`.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def page(
        self,
        *,
        recipient: str | None = None,
        reason: str | None = None,
        before: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> dict[str, Any]:
        """Open ones in the order of their messages, at most `limit`; `next` of the answer is `after` of the next."""
        query = _given(recipient=recipient, reason=reason, before=before, limit=limit, after=after)
        return dict(await self._transport.get(_PATH, query))

    async def read(self, recipient: str, channel: str, sequence: int) -> dict[str, Any]:
        """One in full, open or closed, with its history and its message."""
        return dict(await self._transport.get(f"{_PATH}/{recipient}/{quote(channel, safe='@')}/{sequence}"))

    async def groups(self) -> list[dict[str, Any]]:
        """How many are open, by recipient and reason."""
        return list((await self._transport.get(f"{_PATH}/groups"))["groups"])

    async def replay(
        self,
        items: Iterable[Item] | None = None,
        *,
        recipient: str | None = None,
        reason: str | None = None,
        cut_off: str | None = None,
        limit: int = 100,
        after: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Have these tried again, or all that match and died before `cut_off` (default: now), at most `limit`."""
        body = _given(recipient=recipient, reason=reason, cut_off=cut_off, after=after, items=_named(items))
        body |= {"limit": limit, "dry_run": dry_run}
        return dict(await self._transport.post(f"{_PATH}/replay", encode(body)))

    async def resolve(self, items: Iterable[Item], note: str | None = None) -> dict[str, Any]:
        """Close these: they are dealt with by other means, as `note` says."""
        body = _given(items=_named(items), note=note)
        return dict(await self._transport.post(f"{_PATH}/resolve", encode(body)))


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _named(items: Iterable[Item] | None) -> list[dict[str, Any]] | None:
    if items is None:
        return None
    return [
        {"recipient": recipient, "channel": channel, "channel_sequence_id": sequence}
        for recipient, channel, sequence in items
    ]
