"""Who gets a message: channels, direct channels, and membership."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from shared.config import Membership
from shared.names import ADAPTER, GOVERNOR, direct_channel, hint
from shared.problems import Problem

PLATFORM: Final = "platform"
"""The channel on which the adapter speaks itself."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Members per channel, direct channels included, and the role of each agent and of the Human Governor.

    `version` is the number under which it came into force (`membership.py`).
    """

    members: dict[str, tuple[str, ...]]
    roles: dict[str, str]
    version: int = 0

    @classmethod
    def of(cls, membership: Membership, version: int = 0) -> "Topology":
        """The topology of these agents and channels. The adapter is a member of `platform`; the Governor has a direct
        channel."""
        members = {name: tuple(channel.members) for name, channel in membership.channels.items()}
        if PLATFORM in members and ADAPTER not in members[PLATFORM]:
            members[PLATFORM] += (ADAPTER,)
        roles: dict[str, str] = {name: agent.role for name, agent in membership.agents.items()}
        roles[GOVERNOR] = "governor"
        return cls(members | {direct_channel(name): (name,) for name in roles}, roles, version)

    def recipients(self, to: str, sender: str) -> tuple[str, ...]:
        """The recipients of a message, or a `Problem`: a channel takes messages of its members only."""
        members = self.members.get(to)
        if members is None:
            detail = f"There is no channel or agent {to!r}.{hint(to, self.members)}"
            raise Problem("unknown-recipient", detail, field="/to")
        if sender not in members:
            if sender not in self.roles and sender != ADAPTER:  # removed since its sidecar was let in
                raise left(sender)
            if not to.startswith("@"):
                raise Problem("not-a-member", f"{sender!r} is not a member of {to!r}.", field="/to")
        return members

    def check_reader(self, channel: str, agent: str) -> None:
        """Raise a `Problem` unless `agent` may read `channel`."""
        members = self.members.get(channel)
        if members is None:
            detail = f"There is no channel {channel!r}.{hint(channel, self.members)}"
            raise Problem("unknown-recipient", detail, field="path channel")
        if agent not in members:
            raise Problem("not-a-member", f"{agent!r} is not a member of {channel!r}.", field="path channel")


def left(agent: str) -> Problem:
    """The refusal of whatever an agent asks that was removed."""
    detail = f"{agent!r} is no agent of this deployment any more. A human decides who is: multiclaw topology list."
    return Problem("unauthenticated", detail)


def order_key(envelope: dict[str, Any]) -> int:
    """The line a message stands in: its task, else its channel (promise 3).

    63 bits of a hash keep the stored row narrow; two keys that collide only share a line.
    """
    task_id = envelope.get("task_id")
    text = f"task {task_id}" if task_id is not None else f"channel {envelope['to']}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
