"""Messages as an agent sees them: read from a channel, or handed over to be processed."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Literal, Protocol, Unpack

from multiclaw.client.outgoing import Receipt, SendFields

NackMode = Literal["release", "fail", "refuse"]


class StoredMessage:
    """A message of a channel. `envelope` is what arrived, unchanged; the properties are its fields."""

    __slots__ = ("envelope",)

    def __init__(self, envelope: dict[str, Any]) -> None:
        self.envelope = envelope

    @property
    def sender(self) -> str:
        """The agent that sent it, as its sidecar vouches."""
        return str(self.envelope["sender"])

    @property
    def to(self) -> str:
        """The channel, or `@agent` for a direct one."""
        return str(self.envelope["to"])

    channel = to
    """Every message is in the channel it was sent to."""

    @property
    def payload(self) -> Any:
        """The content."""
        return self.envelope["payload"]

    @property
    def context(self) -> Any:
        """What a cold-started receiver needs, or None."""
        return self.envelope.get("context")

    @property
    def task_id(self) -> str | None:
        """The task it is about."""
        return self.envelope.get("task_id")

    @property
    def parent_task_id(self) -> str | None:
        """The task that its task is part of."""
        return self.envelope.get("parent_task_id")

    @property
    def thread_id(self) -> str | None:
        """The conversation it belongs to."""
        return self.envelope.get("thread_id")

    @property
    def correlation_id(self) -> str | None:
        """What ties a question to its answer."""
        return self.envelope.get("correlation_id")

    @property
    def reply_to_sequence_id(self) -> int | None:
        """The message it answers: of its channel or, if it is direct, of its sender's own direct channel."""
        return self.envelope.get("reply_to_sequence_id")

    @property
    def sequence(self) -> int:
        """Its number in the channel, from 1, without holes."""
        return int(self.envelope["channel_sequence_id"])

    @property
    def timestamp(self) -> str:
        """When the adapter took it: RFC 3339, UTC."""
        return str(self.envelope["timestamp_iso8601"])

    @property
    def key(self) -> str:
        """The sender's idempotency key: the same message has the same, however often it is handed over."""
        return str(self.envelope["idempotency_key"])

    @property
    def priority(self) -> str:
        """`critical` or `normal`."""
        return str(self.envelope.get("priority", "normal"))

    @property
    def deadline(self) -> str | None:
        """When it should be done: RFC 3339."""
        return self.envelope.get("deadline")

    @property
    def expires_at(self) -> str | None:
        """When it stops being of use: RFC 3339."""
        return self.envelope.get("expires_at")

    @property
    def replaces(self) -> dict[str, Any] | None:
        """The dead letter that it was sent in the stead of: `recipient`, `channel`, `channel_sequence_id`."""
        return self.envelope.get("replaces")

    @property
    def receipts(self) -> list[dict[str, Any]]:
        """The files that travel with it: `file_id`, `sha256`, `bytes`."""
        return list(self.envelope.get("receipts") or ())

    @property
    def order_key(self) -> tuple[str, str]:
        """Messages with the same one are processed in order: those of one task, else those of one channel."""
        return ("channel", self.to) if self.task_id is None else ("task", self.task_id)

    @property
    def type(self) -> str:
        """Contract and version, such as `task.assign/1`."""
        return str(self.envelope["type"])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type} {self.to}#{self.sequence} from {self.sender}>"


class Holder(Protocol):
    """What a message asks of the agent that holds it."""

    async def ack(self, delivery_id: str, result: Any) -> None:
        """Tell that it is processed."""

    async def ack_by_poll(self, delivery_id: str, result: Any) -> None:
        """Have the next poll tell that it is processed."""

    async def nack(self, delivery_id: str, mode: NackMode, reason: str | None) -> None:
        """Tell that it is not."""

    async def extend(self, delivery_ids: list[str], seconds: float) -> dict[str, str]:
        """Ask for time; gives each lease's new end."""

    @property
    def send(self) -> Callable[..., Awaitable[Receipt]]:
        """`Agent.send`."""


class Message(StoredMessage):
    """One hand-over of a message, under a lease.

    `attempt` counts hand-overs to this agent, this one included; `settled` is what was told of it, `ack` or the mode of
    a nack, and None until then. When the lease ends without an ack, the message is
    handed over again and what this object then says is answered with `StaleLease`.
    """

    __slots__ = ("_holder", "attempt", "delivery_id", "lease_expires_at", "redelivered", "settled")

    def __init__(self, delivery: Mapping[str, Any], holder: Holder) -> None:
        super().__init__(delivery["envelope"])
        self.delivery_id = str(delivery["delivery_id"])
        self.attempt = int(delivery["attempt"])
        self.redelivered = bool(delivery.get("redelivered", self.attempt > 1))
        self.lease_expires_at = str(delivery["lease_expires_at"])
        self.settled: Literal["ack"] | NackMode | None = None
        self._holder = holder

    async def ack(self, result: Any = None) -> None:
        """It is processed, with this result (any JSON, at most 16 KiB). Again is harmless."""
        await self._holder.ack(self.delivery_id, result)
        self.settled = "ack"

    async def ack_by_poll(self, result: Any = None) -> None:
        """As `ack`, by the poll that follows at once: for who makes that poll."""
        await self._holder.ack_by_poll(self.delivery_id, result)
        self.settled = "ack"

    async def nack(self, mode: NackMode = "fail", reason: str | None = None) -> None:
        """It is not processed: `release` gives it back free, `fail` spends an attempt, `refuse` is final."""
        await self._holder.nack(self.delivery_id, mode, reason)
        self.settled = mode

    async def extend(self, seconds: float) -> None:
        """Have the lease end `seconds` from now, at most an hour."""
        leases = await self._holder.extend([self.delivery_id], seconds)
        self.lease_expires_at = leases[self.delivery_id]

    async def reply(
        self,
        type: str,  # noqa: A002 - the envelope's own word
        payload: Any,
        *,
        to: str | None = None,
        **fields: Unpack[SendFields],
    ) -> Receipt:
        """Answer it: to its sender unless `to` says otherwise, in its thread and task unless `fields` do."""
        target = f"@{self.sender}" if to is None else to
        together = self._threading(target)
        together.update(fields)
        return await self._holder.send(target, type, payload, **together)

    def _threading(self, target: str) -> SendFields:
        """The ids an answer takes over.

        A sequence names its message only together with a channel. In a channel, an answer refers to that channel; an
        answer to an agent refers to the answerer's own direct channel. Across the two there is no number to give.
        """
        same_scope = target == self.to or (target.startswith("@") and self.to.startswith("@"))
        return SendFields(
            thread_id=self.thread_id,
            correlation_id=self.correlation_id,
            task_id=self.task_id,
            reply_to_sequence_id=self.sequence if same_scope else None,
        )


def lease_seconds(message: Message, now: datetime) -> float:
    """How long its lease lasts from `now`; not above 0 when this host's clock was stepped, or it has ended."""
    return (datetime.fromisoformat(message.lease_expires_at) - now).total_seconds()
