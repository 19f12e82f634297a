"""How the sidecar is: health and metrics."""

import os
from collections.abc import Mapping
from typing import Any

from shared.database import SQLITE_VERDICT, SQLITE_VERSION
from shared.times import iso
from shared.web.routes import Answer, Call, json_answer
from sidecar.counters import Counters
from sidecar.monitor import Monitor, Watched
from sidecar.store.deferred_acks import DeferredAcks

METRICS_TYPE = "text/plain; version=0.0.4"


class State:
    """What is told to anyone who asks."""

    def __init__(
        self, agent: str, watched: Watched, deferred: DeferredAcks, counters: Counters, monitor: Monitor
    ) -> None:
        self._agent = agent
        self._store = watched.store
        self._outbox = watched.outbox
        self._breaker = watched.breaker
        self._poller = watched.poller
        self._deferred = deferred
        self._counters = counters
        self._monitor = monitor

    async def health(self, _: Call) -> Answer:
        """200 while the sidecar can keep its promises, with the adapter or without; 503 when its store fails."""
        await self._store.check()
        return json_answer(200, self._health())

    async def metrics(self, _: Call) -> Answer:
        """Counters and gauges."""
        from sidecar.metrics import render  # noqa: PLC0415 - a tenth of start-up, and many never scrape

        body = render(self._agent, self._counters, self._gauges(), self._by_state(), self._monitor.by_condition)
        return Answer(200, body, METRICS_TYPE)

    def _health(self) -> dict[str, Any]:
        conditions, oldest_us = self._monitor.lasting, self._outbox.oldest_us
        well = self._poller.reachable and self._breaker.closed and not self._outbox.depth and not self._poller.shut_out
        return {
            "status": "ok" if well and not conditions else "degraded",
            "agent": self._agent,
            "pid": os.getpid(),
            "adapter_reachable": self._poller.reachable,
            "shut_out": self._poller.shut_out,
            "breaker": self._breaker.state,
            "outbox_depth": self._outbox.depth,
            "outbox_dead": self._outbox.dead,
            "outbox_max": self._outbox.bounds.entries_max,
            "outbox_oldest_at": None if oldest_us is None else iso(oldest_us),
            "deferred_acks": self._deferred.depth,
            "conditions": conditions,
            "sqlite_version": SQLITE_VERSION,
            "sqlite_verdict": str(SQLITE_VERDICT),
            "page_checksums": self._store.page_checksums,
        }

    def _gauges(self) -> dict[str, tuple[str, float]]:
        return {
            "adapter_reachable": ("Whether the last health probe succeeded.", self._poller.reachable),
            "breaker_open": ("Whether the link's breaker is not closed.", not self._breaker.closed),
            "outbox_depth": ("Sends that wait for the adapter.", self._outbox.depth),
            "outbox_dead": ("Queued sends that the adapter refused for good.", self._outbox.dead),
            "deferred_acks": ("Acknowledgements that wait for the adapter.", self._deferred.depth),
        }

    def _by_state(self) -> dict[str, tuple[str, Mapping[str, float]]]:
        return {
            "breaker_entries": ("How often the breaker entered a state.", self._breaker.entries()),
            "breaker_seconds": ("Time that the breaker spent in a state.", self._breaker.seconds()),
        }
