"""The routes about the topology, which a sidecar and the adapter have alike."""

from typing import Protocol

from shared import topology as wire
from shared.limits import INTEGER_MAX
from shared.web.routes import Answer, Call, Query, Route


class Handlers(Protocol):
    """Who answers them."""

    async def current(self, call: Call) -> Answer:
        """The version in force."""

    async def versions(self, call: Call) -> Answer:
        """All of them."""

    async def one(self, call: Call) -> Answer:
        """One of them."""

    async def propose(self, call: Call) -> Answer:
        """A change, for a human to decide on."""


def topology_routes(root: str, handlers: Handlers, problems: tuple[str, ...]) -> list[Route]:
    """The routes below `root`; `problems` are those that every one of them has."""
    page = (
        Query("before", {"type": "integer", "minimum": 1, "maximum": INTEGER_MAX}, "only versions of lower numbers"),
        Query("limit", {"type": "integer", "minimum": 1, "maximum": wire.VERSIONS_MAX, "default": wire.VERSIONS_MAX},
              "most to give"),
    )  # fmt: skip
    return [
        Route(
            "GET", root + wire.PATH, "read_topology", "The topology in force.", handlers.current,
            {200: wire.TopologyVersion}, problems=problems,
        ),
        Route(
            "GET", root + wire.VERSIONS_PATH, "list_topology_versions", "Every version, what was denied included.",
            handlers.versions, {200: wire.TopologyVersions}, query=page, problems=problems,
        ),
        Route(
            "GET", root + wire.ONE_PATH, "read_topology_version", "One version of the topology.", handlers.one,
            {200: wire.TopologyVersion}, problems=(*problems, "not-found"),
        ),
        Route(
            "POST", root + wire.PROPOSALS_PATH, "propose_topology", "Propose a change of members to a human.",
            handlers.propose, {201: wire.TopologyVersion}, body=wire.Proposal, body_bytes_max=wire.PROPOSAL_BYTES_MAX,
            problems=(*problems, "not-permitted", "too-many-proposals"),
        ),
    ]  # fmt: skip
