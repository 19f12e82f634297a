"""What the parts of the exchange share, and what a part is.

Each part decides on some of the commands, over the same books. They live in the writer's thread, so nothing here is
ever seen half changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from adapter.core.changes import Changes
from adapter.core.mailbox import Mailbox
from adapter.core.places import Places
from adapter.core.policy import Now, Policy
from adapter.core.ports import StoreTransaction
from adapter.core.routing import Topology, left


@dataclass(slots=True)
class Books:
    """The mailboxes of every agent, the places that are given, and what the present group has changed.

    `last_seen` is when each agent last polled, in wall microseconds, and `polled_us` when its last poll began or ended,
    in steady ones.
    """

    topology: Topology
    policy: Policy
    places: Places
    mailboxes: dict[str, Mailbox]
    changes: Changes = field(default_factory=Changes)
    last_seen: dict[str, int] = field(default_factory=dict)
    polled_us: dict[str, int] = field(default_factory=dict)

    def saw(self, agent: str, now: Now) -> None:
        """A poll of this agent began or ended."""
        self.last_seen[agent] = now.wall_us
        self.polled_us[agent] = now.steady_us

    def mailbox(self, agent: str) -> Mailbox:
        """The mailbox of an agent; raises a `Problem` for one that was removed since its sidecar was let in."""
        mailbox = self.mailboxes.get(agent)
        if mailbox is None:
            raise left(agent)
        return mailbox


class Decide(Protocol):
    """Decides on one command; raises a `Problem` for one that is refused, and has then changed nothing."""

    def __call__(self, command: Any, store: StoreTransaction, now: Now, /) -> Any:
        """The outcome."""


class Part(Protocol):
    """A part of the exchange: the commands it decides on, and what it does when its time has come."""

    def handlers(self) -> Mapping[type, Decide]:
        """What decides, by type of command."""

    def next_due_us(self) -> int | None:
        """When `tick` has something to do, at the earliest, in steady microseconds."""

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """Do what is due now. Called whenever time may have passed; early calls do nothing."""
