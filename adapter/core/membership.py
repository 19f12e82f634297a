"""Versions of the topology: who proposed what, what a human decided, and which one is in force (promise 17).

This file owns the states of a version and the table of their transitions. Versions are numbered from 1, in the order
in which they were proposed or found in the file; every one is kept for ever, and none is changed but in its state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import Final, Literal

from shared.config import Membership

Source = Literal["file", "proposal"]


class Standing(StrEnum):
    """Where a version stands. The words are stored."""

    PROPOSED = "proposed"
    CURRENT = "current"
    SUPERSEDED = "superseded"
    DENIED = "denied"
    STALE = "stale"


class Step(StrEnum):
    """What can happen to a version."""

    APPROVE = "approve"  # a human takes it
    DENY = "deny"  # a human refuses it
    OVERTAKE = "overtake"  # another came into force, so that this one's base is gone
    SUPERSEDE = "supersede"  # a later one came into force


TRANSITIONS: Final[dict[tuple[Standing, Step], Standing]] = {
    (Standing.PROPOSED, Step.APPROVE): Standing.CURRENT,
    (Standing.PROPOSED, Step.DENY): Standing.DENIED,
    (Standing.PROPOSED, Step.OVERTAKE): Standing.STALE,
    (Standing.CURRENT, Step.SUPERSEDE): Standing.SUPERSEDED,
}


@dataclass(frozen=True, slots=True)
class TopologyVersion:
    """One version. Times are wall microseconds; `base` is the version that it changes, 0 for none.

    `changes` says in words what it changes. `in_file` tells that `multiclaw.toml` is known to have said so.
    """

    version: int
    base: int
    membership: Membership
    changes: tuple[str, ...]
    source: Source
    proposed_by: str
    reason: str
    proposed_at_us: int
    standing: Standing = Standing.PROPOSED
    decided_by: str | None = None
    decided_at_us: int | None = None
    note: str | None = None
    in_file: bool = False

    def moved(self, step: Step) -> "TopologyVersion":
        """This version after `step`; an illegal one raises `ValueError`."""
        target = TRANSITIONS.get((self.standing, step))
        if target is None:
            raise ValueError(f"a {self.standing} version cannot {step}")
        return replace(self, standing=target)

    def decided(self, step: Step, who: str, at_us: int, note: str | None) -> "TopologyVersion":
        """This version after a human's decision."""
        return replace(self.moved(step), decided_by=who, decided_at_us=at_us, note=note)


NOBODY: Final = TopologyVersion(
    0, 0, Membership(agents={}, channels={}), (), "file", "file", "nothing was there yet", 0, Standing.CURRENT
)
"""What is in force before the first file was read. It is never stored."""


class FileState(Enum):
    """How the file stands to the store when an adapter starts."""

    SAME = auto()  # it says what is in force
    BEHIND = auto()  # it says what was in force before an approval that nobody has written into it
    EDITED = auto()  # somebody has changed it by hand


def file_state(file: Membership, applied: Sequence[TopologyVersion]) -> FileState:
    """What the file's content means. `applied` are the versions that were in force since the file was last known to
    say one, the newest at the end: any of them may have been written without word of it."""
    if file == applied[-1].membership:
        return FileState.SAME
    return FileState.BEHIND if any(file == version.membership for version in applied) else FileState.EDITED


def differences(before: Membership, after: Membership) -> tuple[str, ...]:
    """What is different, a sentence each; none when nothing is."""
    return (*_agents(before, after), *_channels(before, after))


def _agents(before: Membership, after: Membership) -> list[str]:
    said = [f"agent {name} leaves" for name in before.agents if name not in after.agents]
    for name, agent in after.agents.items():
        earlier = before.agents.get(name)
        if earlier is None:
            said.append(f"agent {name} joins as {agent.role}")
        elif earlier != agent:
            said.append(f"agent {name} is {agent.role} at port {agent.port}, and was {earlier.role} at {earlier.port}")
    return said


def _channels(before: Membership, after: Membership) -> list[str]:
    said = [f"channel {name} ends" for name in before.channels if name not in after.channels]
    for name, channel in after.channels.items():
        earlier = before.channels.get(name)
        if earlier is None:
            said.append(f"channel {name} begins, with {', '.join(channel.members) or 'nobody'}")
            continue
        gone = [each for each in earlier.members if each not in channel.members]
        new = [each for each in channel.members if each not in earlier.members]
        said += [f"{each} leaves {name}" for each in gone] + [f"{each} joins {name}" for each in new]
        if not gone and not new and earlier != channel:
            said.append(f"the members of {name} are reported in another order")
    return said
