"""Whether the process lives, whether it can serve, and figures for both."""

import os
from collections.abc import Callable
from typing import Any, Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from adapter.store.engine import Store
from adapter.store.integrity import ScanFigures
from adapter.store.ladder import Ladder
from shared.backups import BackupState
from shared.database import SQLITE_VERDICT, SQLITE_VERSION
from shared.names import GOVERNOR
from shared.service_manager import Standing
from shared.times import MICROSECONDS, from_iso, iso
from shared.web.routes import Answer, Call, json_answer

METRICS_TYPE = "text/plain"

_BACKUP_FIGURES: Final = {
    "last_success_seconds": "When the newest verified backup of the store was begun",
    "last_failure_seconds": "When a backup failed last, since the adapter was started",
    "bytes": "Size of the newest verified backup",
    "duration_seconds": "How long the last backup took, since the adapter was started",
}


class Health:
    """Liveness, readiness and metrics."""

    def __init__(self, store: Store, warnings: Callable[[], list[str]], backups: Callable[[], BackupState]) -> None:
        self._store = store
        self._warnings = warnings
        self._backups = backups
        self._registry = CollectorRegistry()
        self._ready = Gauge("multiclaw_adapter_ready", "1 when the store takes writes", registry=self._registry)
        self._queue = Gauge("multiclaw_queue_depth", "Deliveries queued or leased", ["agent"], registry=self._registry)
        self._pruned = Gauge(
            "multiclaw_messages_pruned", "Messages forgotten since the store was opened", registry=self._registry
        )
        self._pruned_at = Gauge(
            "multiclaw_retention_last_pass_seconds", "When retention last looked at everything", registry=self._registry
        )
        self._scanned_at = Gauge(
            "multiclaw_integrity_last_scan_seconds",
            "When the last scan of all pages of the store ended, without a fault",
            registry=self._registry,
        )
        self._scan_progress = Gauge(
            "multiclaw_integrity_scan_ratio", "How much of the scan under way is done", registry=self._registry
        )
        self._backed_up = {
            name: Gauge(f"multiclaw_backup_{name}", words, registry=self._registry)
            for name, words in _BACKUP_FIGURES.items()
        }
        self._clock_doubted = Gauge(
            "multiclaw_clock_doubted",
            "1 while the wall clock has jumped: what it skipped makes no message older",
            registry=self._registry,
        )

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
        self._ready.set(await self._store.check() is None)
        for agent, depth in self._store.depths().items():
            self._queue.labels(agent).set(depth)
        pruning = self._store.pruning()
        self._pruned.set(pruning.messages)
        self._pruned_at.set(pruning.last_pass_us / MICROSECONDS)
        scan = self._store.integrity.figures()
        self._scanned_at.set((scan.position.finished_at_us or 0) / MICROSECONDS)
        self._scan_progress.set(scan.progress)
        self._clock_doubted.set(pruning.clock_doubted)
        self._set_backups(self._backups())
        return Answer(200, generate_latest(self._registry), METRICS_TYPE)

    def _set_backups(self, backups: BackupState) -> None:
        """What there is none of is 0, so that an alert on the age of the last one needs no special case."""
        self._backed_up["last_success_seconds"].set(_seconds(backups.last_success))
        self._backed_up["last_failure_seconds"].set(_seconds(backups.last_failure))
        self._backed_up["bytes"].set(backups.bytes or 0)
        self._backed_up["duration_seconds"].set(backups.seconds or 0)


def _seconds(moment: str | None) -> float:
    return 0.0 if moment is None else from_iso(moment) / MICROSECONDS


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
