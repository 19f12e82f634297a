"""What a change of members makes of the members there are, or what is wrong with it. Pure."""

from collections.abc import Iterable

from adapter.core.routing import PLATFORM
from shared.config import Agent, Channel, Membership
from shared.names import ADAPTER, RESERVED, hint
from shared.problems import Problem
from shared.strict_json import pointer
from shared.topology import AGENTS_MAX, CHANNELS_MAX, AgentsChange, ChannelsChange, MembersChange, TopologyChange

_ORCHESTRATOR = "orchestrator"


def reshaped(current: Membership, change: TopologyChange) -> Membership:
    """The members after `change`. Raises `invalid-field`, whose `field` points at what cannot be."""
    agents = _agents(current.agents, change.agents)
    channels = {
        name: Channel(members=[member for member in channel.members if member in agents or member == ADAPTER])
        for name, channel in current.channels.items()
    }
    membership = Membership(agents=agents, channels=_channels(channels, change.channels, agents))
    _check_sizes(current, membership)
    return membership


def _agents(current: dict[str, Agent], change: AgentsChange) -> dict[str, Agent]:
    for name in change.add:
        if name in RESERVED:
            raise _refused(f"The agent name {name!r} is reserved; choose another.", "agents", "add", name)
        if name in current:
            raise _refused(f"{name!r} is an agent already.", "agents", "add", name)
    for position, name in enumerate(change.remove):
        _check_known("agent", name, current, "agents", "remove", position)
    left = {name: agent for name, agent in (current | change.add).items() if name not in change.remove}
    orchestrators = (agent.role == _ORCHESTRATOR for agent in left.values())
    if not any(orchestrators) and any(agent.role == _ORCHESTRATOR for agent in current.values()):
        raise _refused("An orchestrator must remain: nobody else can propose a change.", "agents", "remove")
    return left


def _channels(channels: dict[str, Channel], change: ChannelsChange, agents: dict[str, Agent]) -> dict[str, Channel]:
    """`channels` with the change. A channel that is removed and changed is a contradiction, as is one added twice."""
    for position, name in enumerate(change.remove):
        _check_known("channel", name, channels, "channels", "remove", position)
        if name == PLATFORM:
            raise _refused(f"{PLATFORM!r} must remain: the adapter speaks there.", "channels", "remove", position)
    for name, channel in change.add.items():
        if name in channels:
            raise _refused(f"{name!r} is a channel already; change its members.", "channels", "add", name)
        _check_members(channel.members, agents, "channels", "add", name, "members")
    left = {name: channel for name, channel in channels.items() if name not in change.remove}
    for name, members in change.change.items():
        _check_known("channel", name, left, "channels", "change", name)
        left[name] = _with_members(name, left[name].members, members, agents)
    return left | change.add


def _with_members(name: str, current: list[str], change: MembersChange, agents: dict[str, Agent]) -> Channel:
    where = "channels", "change", name
    for position, member in enumerate(change.remove):
        if member not in current:
            detail = f"{member!r} is not a member of {name!r}.{hint(member, current)}"
            raise _refused(detail, *where, "remove", position)
        if member == ADAPTER:
            raise _refused("The adapter leaves no channel.", *where, "remove", position)
    left = [member for member in current if member not in change.remove]
    for position, member in enumerate(change.add):
        if member in left:
            raise _refused(f"{member!r} is a member of {name!r} already.", *where, "add", position)
    _check_members(change.add, agents, *where, "add")
    return Channel(members=[*left, *change.add])


def _check_members(members: list[str], agents: dict[str, Agent], *where: str | int) -> None:
    for position, member in enumerate(members):
        if member != ADAPTER:
            _check_known("agent", member, agents, *where, position)
        if member in members[:position]:
            raise _refused(f"{member!r} is named twice.", *where, position)


def _check_known(kind: str, name: str, known: Iterable[str], *where: str | int) -> None:
    if name not in known:
        raise _refused(f"There is no {kind} {name!r}.{hint(name, known)}", *where)


def _check_sizes(before: Membership, after: Membership) -> None:
    """What grows stays within the plan; a file that was written beyond it may shrink."""
    for kind, was, will, most in (
        ("agents", before.agents, after.agents, AGENTS_MAX),
        ("channels", before.channels, after.channels, CHANNELS_MAX),
    ):
        if len(will) > max(most, len(was)):
            raise _refused(f"There would be {len(will)} {kind}; {most} is the most.", kind, "add")


def _refused(detail: str, *where: str | int) -> Problem:
    return Problem("invalid-field", detail, field=pointer(("change", *where)))
