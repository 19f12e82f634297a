"""`/metrics` in Prometheus' text format, made from plain numbers when it is asked for."""

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from adapter.store.engine import Store
from shared.backups import BackupState
from shared.times import MICROSECONDS, from_iso


def render(store: Store, backups: BackupState, *, ready: bool) -> bytes:
    """Every figure as it is now. What there is none of is 0, so that an alert on an age needs no special case."""
    pruning, scan, registry = store.pruning(), store.integrity.figures(), CollectorRegistry()

    def tell(name: str, words: str, value: float) -> None:
        Gauge(f"multiclaw_{name}", words, registry=registry).set(value)

    tell("adapter_ready", "1 when the store takes writes", ready)
    queue = Gauge("multiclaw_queue_depth", "Deliveries queued or leased", ["agent"], registry=registry)
    for agent, depth in store.depths().items():
        queue.labels(agent).set(depth)
    tell("messages_pruned", "Messages forgotten since the store was opened", pruning.messages)
    last_pass = pruning.last_pass_us / MICROSECONDS
    tell("retention_last_pass_seconds", "When retention last looked at everything", last_pass)
    last_scan = (scan.position.finished_at_us or 0) / MICROSECONDS
    words = "When the last scan of all pages of the store ended, without a fault"
    tell("integrity_last_scan_seconds", words, last_scan)
    tell("integrity_scan_ratio", "How much of the scan under way is done", scan.progress)
    tell("store_log_bytes", "Length of the store's log", store.log.bytes)
    words = "How much of the log could not be brought into the store, for who reads it or because the disk fails"
    tell("store_log_stuck_bytes", words, store.log.stuck_bytes)
    words = "When the newest verified backup of the store was begun"
    tell("backup_last_success_seconds", words, _seconds(backups.last_success))
    words = "When a backup failed last, since the adapter was started"
    tell("backup_last_failure_seconds", words, _seconds(backups.last_failure))
    tell("backup_bytes", "Size of the newest verified backup", backups.bytes or 0)
    words = "How long the last backup took, since the adapter was started"
    tell("backup_duration_seconds", words, backups.seconds or 0)
    words = "1 while the wall clock has jumped: what it skipped makes no message older"
    tell("clock_doubted", words, pruning.clock_doubted)
    return generate_latest(registry)


def _seconds(moment: str | None) -> float:
    return 0.0 if moment is None else from_iso(moment) / MICROSECONDS
