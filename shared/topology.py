"""The topology on the wire: its versions, and what can be done about them. One set of models for the agents' API and
the link."""

from typing import Annotated, Final, Literal

from pydantic import Field

from shared.config import Agent, Channel, Membership
from shared.envelope import Name
from shared.limits import REASON_CHARS_MAX
from shared.model import Model

PATH: Final = "/topology"
"""Below `/link/v1` at the adapter and below `/v1` at a sidecar."""

VERSIONS_PATH: Final = f"{PATH}/versions"
ONE_PATH: Final = f"{VERSIONS_PATH}/{{version}}"
PROPOSALS_PATH: Final = f"{PATH}/proposals"
APPROVE_PATH: Final = f"{ONE_PATH}/approve"
DENY_PATH: Final = f"{ONE_PATH}/deny"
WRITTEN_PATH: Final = f"{ONE_PATH}/written"

VERSIONS_MAX: Final = 100
"""Versions of one page."""

PROPOSAL_BYTES_MAX: Final = 256 * 1024
"""Body of a proposal: 100 agents that join ten channels each fit, whatever their names."""

AGENTS_MAX: Final = 100
CHANNELS_MAX: Final = 100
"""What a proposal may grow a deployment to: the sizes that one host is planned for, and as many channels."""

Text = Annotated[str, Field(min_length=1, max_length=REASON_CHARS_MAX)]
State = Literal["proposed", "current", "superseded", "denied", "stale"]


class AgentsChange(Model):
    """Agents that join, and agents that leave, each out of every channel it is in."""

    add: Annotated[dict[Name, Agent], Field(max_length=AGENTS_MAX)] = Field(default_factory=dict)
    remove: Annotated[list[Name], Field(max_length=AGENTS_MAX)] = Field(default_factory=list)


class MembersChange(Model):
    """Agents that join a channel, and agents that leave it."""

    add: Annotated[list[Name], Field(max_length=AGENTS_MAX)] = Field(default_factory=list)
    remove: Annotated[list[Name], Field(max_length=AGENTS_MAX)] = Field(default_factory=list)


class ChannelsChange(Model):
    """New channels, other members of those there are, and channels that take no more messages."""

    add: Annotated[dict[Name, Channel], Field(max_length=CHANNELS_MAX)] = Field(default_factory=dict)
    change: Annotated[dict[Name, MembersChange], Field(max_length=CHANNELS_MAX)] = Field(default_factory=dict)
    remove: Annotated[list[Name], Field(max_length=CHANNELS_MAX)] = Field(default_factory=list)


class TopologyChange(Model):
    """What shall be different. Agents are added first, so that channels can name them."""

    agents: AgentsChange = Field(default_factory=AgentsChange)
    channels: ChannelsChange = Field(default_factory=ChannelsChange)


class Proposal(Model):
    """A change of members, for a human to decide on."""

    change: TopologyChange
    reason: Text


class Decision(Model):
    """What a human says to a proposal."""

    note: Text | None = None


class TopologyVersion(Model):
    """One version of the topology. `changes` tells in words what it changes in version `base` (0: the first)."""

    version: int
    base: int
    state: State
    source: Literal["file", "proposal"]
    proposed_by: str
    reason: str
    proposed_at: str
    decided_by: str | None
    decided_at: str | None
    note: str | None = Field(description="what the human said")
    in_file: bool = Field(description="whether `multiclaw.toml` is known to say it")
    changes: list[str]
    topology: Membership


class TopologyVersions(Model):
    """The newest first. `next` continues a page that was cut, as `before` of the next request."""

    versions: list[TopologyVersion]
    next: int | None
