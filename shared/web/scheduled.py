"""The routes about scheduled messages, which a sidecar and the adapter have alike."""

from typing import Protocol

from shared import scheduled as wire
from shared.web.routes import Answer, Call, Query, Route, paging


class Handlers(Protocol):
    """Who answers them."""

    async def page(self, call: Call) -> Answer:
        """What waits or has failed."""

    async def cancel(self, call: Call) -> Answer:
        """Not to be sent."""


def scheduled_routes(root: str, handlers: Handlers, problems: tuple[str, ...]) -> list[Route]:
    """The routes below `root`; `problems` are those that both of them have."""
    whose = Query("sender", {"type": "string"}, "whose; anybody's only for the orchestrator, your own if left out")
    filters = (
        Query("sender", {"type": "string"}, "only this sender's; the orchestrator sees everybody's if it is left out"),
        *paging(wire.ITEMS_DEFAULT, wire.ITEMS_MAX, wire.CURSOR_PATTERN),
    )  # fmt: skip
    every = (*problems, "not-permitted")
    return [
        Route(
            "GET", root + wire.PATH, "list_scheduled", "Messages that wait for their time, or failed at it.",
            handlers.page, {200: wire.ScheduledPage}, query=filters, problems=every,
        ),
        Route(
            "DELETE", root + wire.ONE_PATH, "cancel_scheduled", "Cancel a scheduled message.", handlers.cancel,
            {200: wire.CancelledView}, query=(whose,), problems=(*every, "not-found", "not-scheduled"),
        ),
    ]  # fmt: skip
