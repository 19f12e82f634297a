"""Dead letters, for the orchestrator: deliveries that nobody will try again unless somebody decides so."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Unpack
from urllib.parse import quote

from multiclaw.client.encoding import encode
from multiclaw.client.identifiers import new_key
from multiclaw.client.outgoing import Receipt, SendFields
from multiclaw.client.transport import Transport

_PATH: Final = "/v1/dead-letters"

_REPLAYS: Final = f"{_PATH}/replays"

Item = tuple[str, str, int]
"""Recipient, channel and sequence: one message for one agent."""

_CARRIED_OVER: Final = ("task_id", "parent_task_id", "thread_id", "correlation_id", "context", "receipts")
"""What a message that is sent anew has of the old one, where nothing else is said. Its times are not among them: they
may have passed."""


class DeadLetters:
    """What the orchestrator can see and decide. Any other agent is refused with `not-permitted`.

    Answers are as the API gives them; times are RFC 3339. `reason` is `max-attempts`, `refused`, `expired` or
    `overflow`.
    """

    def __init__(self, transport: Transport, send: Callable[..., Awaitable[Receipt]]) -> None:
        self._transport = transport
        self._send = send

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
        named = None if items is None else _named(items)
        body = _given(recipient=recipient, reason=reason, cut_off=cut_off, after=after, items=named)
        body |= {"limit": limit, "dry_run": dry_run}
        return dict(await self._transport.post(f"{_PATH}/replay", encode(body)))

    async def resolve(self, items: Iterable[Item], note: str | None = None) -> dict[str, Any]:
        """Close these: they are dealt with by other means, as `note` says."""
        body = _given(items=_named(items), note=note)
        return dict(await self._transport.post(f"{_PATH}/resolve", encode(body)))

    async def resend(
        self,
        letter: Item | Mapping[str, Any],
        *,
        payload: Any = ...,
        to: str | None = None,
        type: str | None = None,  # noqa: A002 - the envelope's own word
        **fields: Unpack[SendFields],
    ) -> Receipt:
        """Send a dead letter anew, in your own name, with what you say of it changed; and close it with that.

        `letter` is an item, or an answer of `page` or `read`. It goes to its recipient where there is no `to`, in its
        task and thread, with its context and receipts unless `fields` say otherwise. As of any send, its retries make
        no second message; give an `idempotency_key` to repeat it from another process. Raises `Refused` with
        `not-dead` where somebody has dealt with the letter.
        """
        item = letter if isinstance(letter, tuple) else _item(letter)
        found = letter if isinstance(letter, Mapping) and "envelope" in letter else await self.read(*item)
        old = found["envelope"]
        together: dict[str, Any] = {name: old[name] for name in _CARRIED_OVER if name in old}
        together |= {**fields, "replaces": _named([item])[0]}
        return await self._send(
            f"@{item[0]}" if to is None else to,
            str(old["type"]) if type is None else type,
            old["payload"] if payload is ... else payload,
            **together,
        )

    async def start_replay(
        self,
        *,
        recipient: str | None = None,
        reason: str | None = None,
        cut_off: str | None = None,
        rate: float | None = None,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """Start a job that has all that match tried again, `rate` a second (at most 1,000), `limit` in all.

        It goes on by itself, over restarts too: `read_replay(job["id"])` tells how far it is. It waits where a queue
        is half full, and touches nothing that dies at `cut_off` or later (default: now).
        """
        asked = _given(id=new_key(), recipient=recipient, reason=reason, cut_off=cut_off, rate=rate, limit=limit)
        return dict(await self._transport.post(_REPLAYS, encode(asked)))

    async def replays(self) -> list[dict[str, Any]]:
        """The jobs that run, and those that ended not long ago; oldest first."""
        return list((await self._transport.get(_REPLAYS))["replays"])

    async def read_replay(self, job_id: str) -> dict[str, Any]:
        """How far a job is."""
        return dict(await self._transport.get(f"{_REPLAYS}/{quote(job_id, safe='')}"))

    async def cancel_replay(self, job_id: str) -> dict[str, Any]:
        """End a job: what is replayed stays so, the rest is left alone. Again is harmless."""
        return dict(await self._transport.call("DELETE", f"{_REPLAYS}/{quote(job_id, safe='')}"))


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _item(letter: Mapping[str, Any]) -> Item:
    return letter["recipient"], letter["channel"], letter["channel_sequence_id"]


def _named(items: Iterable[Item]) -> list[dict[str, Any]]:
    return [
        {"recipient": recipient, "channel": channel, "channel_sequence_id": sequence}
        for recipient, channel, sequence in items
    ]
