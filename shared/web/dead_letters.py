"""The routes about dead letters, which a sidecar and the adapter have alike."""

from typing import Final, Protocol

from shared import dead_letters as wire
from shared import replays
from shared.web.routes import Answer, Call, Query, Route, paging

_BODY_BYTES_MAX: Final = wire.ITEMS_MAX * 256
"""An item takes 190 bytes at most when both of its names are of the longest kind."""


class Handlers(Protocol):
    """Who answers them."""

    async def page(self, call: Call) -> Answer:
        """Open ones."""

    async def one(self, call: Call) -> Answer:
        """One in full."""

    async def groups(self, call: Call) -> Answer:
        """Counts."""

    async def replay(self, call: Call) -> Answer:
        """To be tried again."""

    async def resolve(self, call: Call) -> Answer:
        """Dealt with."""


class ReplayHandlers(Protocol):
    """Who answers those about replay jobs."""

    async def start(self, call: Call) -> Answer:
        """A new job."""

    async def all(self, call: Call) -> Answer:
        """Those that are known."""

    async def one(self, call: Call) -> Answer:
        """How far one is."""

    async def cancel(self, call: Call) -> Answer:
        """To end it."""


def replay_routes(root: str, handlers: ReplayHandlers, problems: tuple[str, ...]) -> list[Route]:
    """The routes of replay jobs below `root`; `problems` are those that every one of them has."""
    every = (*problems, "not-permitted")
    view = replays.ReplayJobView
    return [
        Route(
            "POST", root + replays.REPLAYS_PATH, "start_replay", "Queue dead letters again, many, at a rate.",
            handlers.start, {201: view, 200: view}, body=replays.ReplayJobRequest,
            problems=(*every, "too-many-replays", "idempotency-conflict"),
        ),
        Route(
            "GET", root + replays.REPLAYS_PATH, "list_replays", "Replays that run or ended not long ago.",
            handlers.all, {200: replays.ReplayJobs}, problems=every,
        ),
        Route(
            "GET", root + replays.ONE_REPLAY_PATH, "read_replay", "How far a replay is.",
            handlers.one, {200: view}, problems=(*every, "not-found"),
        ),
        Route(
            "DELETE", root + replays.ONE_REPLAY_PATH, "cancel_replay", "End a replay where it is.",
            handlers.cancel, {200: view}, problems=(*every, "not-found"),
        ),
    ]  # fmt: skip


def dead_letter_routes(root: str, handlers: Handlers, problems: tuple[str, ...]) -> list[Route]:
    """The routes below `root`; `problems` are those that every one of them has."""
    filters = (
        Query("recipient", {"type": "string"}, "only those for this agent"),
        Query("reason", {"type": "string", "enum": list(wire.REASONS)}, "only those that died for this"),
        Query("before", {"type": "string", "format": "date-time"}, "only those that died before this"),
        *paging(wire.ITEMS_DEFAULT, wire.ITEMS_MAX, wire.CURSOR_PATTERN),
    )  # fmt: skip
    every = (*problems, "not-permitted")
    return [
        Route(
            "GET", root + wire.PATH, "list_dead_letters", "Open dead letters, for the orchestrator.", handlers.page,
            {200: wire.DeadLetterPage}, query=filters, problems=every,
        ),
        Route(
            "GET", root + wire.GROUPS_PATH, "group_dead_letters", "Open dead letters by recipient and reason.",
            handlers.groups, {200: wire.DeadLetterGroups}, problems=every,
        ),
        Route(
            "GET", root + wire.ONE_PATH, "read_dead_letter", "One dead letter with its history and its message.",
            handlers.one, {200: wire.DeadLetterRecord}, problems=(*every, "not-found"),
        ),
        Route(
            "POST", root + wire.REPLAY_PATH, "replay_dead_letters", "Queue dead letters again.", handlers.replay,
            {200: wire.ReplayAnswer}, body=wire.ReplayRequest, body_bytes_max=_BODY_BYTES_MAX,
            problems=(*every, "not-dead", "expired", "queue-full", "not-found", "unknown-recipient"),
        ),
        Route(
            "POST", root + wire.RESOLVE_PATH, "resolve_dead_letters", "Close dead letters that are dealt with.",
            handlers.resolve, {200: wire.ResolveAnswer}, body=wire.ResolveRequest, body_bytes_max=_BODY_BYTES_MAX,
            problems=(*every, "not-dead", "not-found"),
        ),
    ]  # fmt: skip
