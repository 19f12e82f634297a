"""What the agents of the demo saw, written down as it happens; the census is taken from this and nothing else."""

import asyncio
import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from multiclaw.client import Message, Receipt
from shared.canonical import canonical


def digest(payload: Any) -> str:
    """SHA-256 of a payload's canonical form: equal exactly when the content is."""
    return hashlib.sha256(canonical(payload)).hexdigest()


@dataclass(frozen=True, slots=True)
class Sent:
    """A send that an agent saw acknowledged, in the order of that agent's sends."""

    agent: str
    message: dict[str, Any]
    recipients: tuple[str, ...]
    first_status: str

    @property
    def key(self) -> str:
        """The idempotency key."""
        return str(self.message["idempotency_key"])


@dataclass(frozen=True, slots=True)
class Applied:
    """A message that an agent processed, in the order it did."""

    key: str
    channel: str
    sequence: int
    order_key: tuple[str, str]
    timestamp: str
    digest: str


@dataclass(slots=True)
class Ledger:
    """Sends and applications of one demo. `outstanding` counts, per recipient, what was sent and not yet applied."""

    sent: list[Sent] = field(default_factory=list)
    applied: dict[str, list[Applied]] = field(default_factory=dict)
    outstanding: Counter[str] = field(default_factory=Counter)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def record_send(self, agent: str, message: dict[str, Any], to: tuple[str, ...], receipt: Receipt) -> None:
        """An acknowledged send; one that repeats an earlier key is the same send and is not counted again."""
        if receipt.status == "duplicate":
            return
        self.sent.append(Sent(agent, message, to, receipt.status))
        self.outstanding.update(to)

    async def record_applied(self, agent: str, message: Message) -> None:
        """A processed message."""
        entry = Applied(
            message.key,
            message.channel,
            message.sequence,
            message.order_key,
            message.timestamp,
            digest(message.payload),
        )
        self.applied.setdefault(agent, []).append(entry)
        self.outstanding[agent] -= 1
        async with self.changed:
            self.changed.notify_all()

    async def room(self, window: int) -> None:
        """Wait until no recipient has more than `window` messages before it."""
        async with self.changed:
            await self.changed.wait_for(lambda: max(self.outstanding.values(), default=0) <= window)

    async def applied_in_all(self, count: int) -> None:
        """Wait until `count` messages were processed, over all agents."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.applications >= count)

    async def settled(self) -> None:
        """Wait until every recipient has processed everything."""
        async with self.changed:
            await self.changed.wait_for(lambda: max(self.outstanding.values(), default=0) <= 0)

    @property
    def applications(self) -> int:
        """Messages processed, over all agents."""
        return sum(len(entries) for entries in self.applied.values())
