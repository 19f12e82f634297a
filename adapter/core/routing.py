"""Who gets a message: channels, direct channels, and membership."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from shared.config import Config
from shared.names import ADAPTER, GOVERNOR, direct_channel, hint
from shared.problems import Problem

PLATFORM: Final = "platform"
"""The channel on which the adapter speaks itself."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Members per channel, direct channels included, and the role of each agent and of the Human Governor."""

    members: dict[str, tuple[str, ...]]
    roles: dict[str, str]

    @classmethod
    def of(cls, config: Config) -> "Topology":
        """The topology of a configuration. The adapter is a member of `platform`; the Governor has a direct channel."""
        members = {name: tuple(channel.members) for name, channel in config.channels.items()}
        if PLATFORM in members and ADAPTER not in members[PLATFORM]:
            members[PLATFORM] += (ADAPTER,)
        roles: dict[str, str] = {name: agent.role for name, agent in config.agents.items()}
        roles[GOVERNOR] = "governor"
        return cls(members | {direct_channel(name): (name,) for name in roles}, roles)

    def recipients(self, to: str, sender: str) -> tuple[str, ...]:
        """The recipients of a message, or a `Problem`: a channel takes messages of its members only."""
        members = self.members.get(to)
        if members is None:
            detail = f"There is no channel or agent {to!r}.{hint(to, self.members)}"
            raise Problem("unknown-recipient", detail, field="/to")
        if not to.startswith("@") and sender not in members:
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


def order_key(envelope: dict[str, Any]) -> int:
    """The line a message stands in: its task, else its channel (promise 3).

    63 bits of a hash keep the stored row narrow; two keys that collide only share a line.
    """
    task_id = envelope.get("task_id")
    text = f"task {task_id}" if task_id is not None else f"channel {envelope['to']}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
