"""Whether the process lives, and whether it can serve."""

import os
from collections.abc import Callable
from typing import Any

from adapter.store.engine import Store
from adapter.store.integrity import ScanFigures
from adapter.store.ladder import Ladder
from shared.backups import BackupState
from shared.database import SQLITE_VERDICT, SQLITE_VERSION
from shared.names import GOVERNOR
from shared.service_manager import Standing
from shared.times import iso
from shared.web.routes import Answer, Call, json_answer

METRICS_TYPE = "text/plain"


class Health:
    """Liveness, readiness and metrics."""

    def __init__(self, store: Store, warnings: Callable[[], list[str]], backups: Callable[[], BackupState]) -> None:
        self._store = store
        self._warnings = warnings
        self._backups = backups

    async def ready(self, _: Call) -> Answer:
        """200 only when the store is open, checked and takes writes; 503 says why not, within a second."""
        fault = await self._store.check()
        queues = self._store.depths()
        unread, seen = queues.pop(GOVERNOR, None), self._store.last_seen()
        body: dict[str, Any] = {
            "status": "ready" if fault is None else "not-ready",
            "pid": os.getpid(),
            "sqlite_version": SQLITE_VERSION,
            "sqlite_verdict": str(SQLITE_VERDICT),
            "page_checksums": self._store.page_checksums,
            "log": {"bytes": self._store.log.bytes, "stuck_bytes": self._store.log.stuck_bytes},
            "integrity": _integrity(self._store.integrity.figures()),
            "backups": self._backups().model_dump(),
            "repair": _repair(self._store.mending.ladder),
            "queues": queues,
            "last_seen": {agent: _moment(seen.get(agent)) for agent in queues},
            "governor_unread": unread,
            "warnings": self._warnings(),
        }
        if fault is not None:
            body["reason"] = fault
        return json_answer(200 if fault is None else 503, body)

    async def standing(self) -> Standing:
        """For systemd. A store that says what is wrong opens itself again; one that does not answer needs a restart."""
        reason = await self._store.check()
        return Standing(reason, stuck=reason is not None and self._store.fault is None)

    async def alive(self, _: Call) -> Answer:
        """The process answers; nothing is said of the store."""
        return json_answer(200, {"status": "alive", "pid": os.getpid()})

    async def metrics(self, _: Call) -> Answer:
        """Prometheus text."""
        from adapter.http.metrics import render  # noqa: PLC0415 - a thirtieth of start-up, and many never scrape

        return Answer(200, render(self._store, self._backups(), ready=await self._store.check() is None), METRICS_TYPE)


def _integrity(scan: ScanFigures) -> dict[str, Any]:
    return {
        "scan": scan.state,
        "last_full_scan": _moment(scan.position.finished_at_us),
        "progress": round(scan.progress, 4),
        "pages": scan.pages,
    }


def _repair(ladder: Ladder | None) -> dict[str, Any] | None:
    """What a repair of the store is doing."""
    if ladder is None or ladder.progress is None:
        return None
    doing, progress = ladder.progress
    return {"doing": doing, "progress": round(progress, 4)}


def _moment(at_us: int | None) -> str | None:
    return None if at_us is None else iso(at_us)
