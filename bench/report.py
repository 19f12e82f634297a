"""Results as JSON for tools and as a table for people."""

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.figures import Figures
from bench.messages import MESSAGE_BYTES
from bench.runner import Result

NOTES: Final = (
    f"messages have {MESSAGE_BYTES} bytes of JSON as the agent writes them; signature and places come on top",
    "via adapter, sends are signed before the timed section and their answers verified after it; polls and acks within",
    "via adapter, sends of one agent that wait together leave in one request on its one connection",
    "cpu is processor time over wall time, 1.0 being one core: the load is the bottleneck when its own is near 1.0",
    "µs is processor time per message (per delivery in W4); it depends less on what else the machine does",
    "the deployment allows its senders 1,000,000 messages per second: the rate limit is checked and never met",
    "x in the row of a peer: ours by its figure in the same round; more is better, with ↓ (time, disk) less is better",
    "a peer is spoken to with its own Python client; server MB counts pages that its processes share once",
    "bare and hops are a floor: the shape of ours without its promises, on the same packages, by the light client",
    "figures are medians over runs; repeats vary by about a tenth, so compare within one output",
)

_APART: Final = frozenset({"store", "peers"})
"""Facts that have no place in one line."""

_COLUMNS: Final[tuple[tuple[str, str, str], ...]] = (
    ("messages_per_s", "msg/s", ",.0f"),
    ("deliveries_per_s", "deliveries/s", ",.0f"),
    ("send_p50_ms", "send p50 ms", ".2f"),
    ("send_p99_ms", "send p99 ms", ".2f"),
    ("send_x", "x", ".2f"),
    ("take_p50_ms", "take p50 ms", ".2f"),
    ("take_p99_ms", "take p99 ms", ".2f"),
    ("take_x", "x", ".2f"),
    ("adapter_x", "ours x", ".2f"),
    ("sidecar_x", "sidecars x", ".2f"),
    ("adapter_p50_x", "ours p50 x↓", ".2f"),
    ("adapter_p99_x", "ours p99 x↓", ".2f"),
    ("adapter_restart_x", "ours restart x↓", ".2f"),
    ("adapter_disk_x", "ours disk x↓", ".2f"),
    ("sidecar_p50_x", "sidecars p50 x↓", ".2f"),
    ("sidecar_p99_x", "sidecars p99 x↓", ".2f"),
    ("sidecar_restart_x", "sidecars restart x↓", ".2f"),
    ("sidecar_disk_x", "sidecars disk x↓", ".2f"),
    ("p50_ms", "p50 ms", ".2f"),
    ("p99_ms", "p99 ms", ".2f"),
    ("still_messages_per_s", "still msg/s", ",.0f"),
    ("still_p50_ms", "still p50 ms", ".2f"),
    ("still_p99_ms", "still p99 ms", ".2f"),
    ("backup_s", "backup s", ".2f"),
    ("pruned_s", "pruned s", ".1f"),
    ("replayed_s", "replayed s", ".1f"),
    ("disk_after_mb", "after MB", ".0f"),
    ("restart_s", "restart s", ".2f"),
    ("drained_s", "drained s", ".2f"),
    ("first_found_s", "first found s", ".2f"),
    ("last_found_s", "last found s", ".2f"),
    ("found_together", "in 100 ms", ".0f"),
    ("adapter_rss_mb", "adapter MB", ".0f"),
    ("sidecar_rss_mb", "sidecar MB", ".0f"),
    ("server_mb", "server MB", ".0f"),
    ("disk_mb", "disk MB", ".0f"),
    ("load_cpu", "load cpu", ".2f"),
    ("adapter_cpu", "adapter cpu", ".2f"),
    ("sidecars_cpu", "sidecars cpu", ".2f"),
    ("adapter_cpu_us", "adapter µs", ".0f"),
    ("cpu_x", "x", ".2f"),
    ("sidecars_cpu_us", "sidecars µs", ".0f"),
)
"""Figure, heading, format."""

_TABLE_WIDTH: Final = 500
"""All columns fit; rich would cut figures short to fit a narrower terminal, which wraps the lines instead."""


def document(results: Sequence[Result], facts: dict[str, Any]) -> dict[str, Any]:
    """For JSON. `ok` is whether every count was right."""
    return {
        "ok": not any(result.faults for result in results),
        "environment": facts,
        "message_bytes": MESSAGE_BYTES,
        "notes": list(NOTES),
        "results": [
            {
                "workload": result.workload.name,
                "via": result.way,
                "about": result.workload.about,
                "messages": result.messages,
                "median": _rounded(result.median),
                "runs": [_rounded(run) for run in result.runs],
                "faults": result.faults,
            }
            for result in results
        ],
    }


def print_table(results: Sequence[Result], facts: dict[str, Any]) -> None:
    """For people: a row per workload and way, only columns that hold something."""
    console = Console(highlight=False, soft_wrap=True, width=max(Console().width, _TABLE_WIDTH))
    medians = [result.median for result in results]
    columns = [column for column in _COLUMNS if any(column[0] in figures for figures in medians)]
    table = Table(box=None, pad_edge=False)
    for heading in ("workload", "via", "messages"):
        table.add_column(heading)
    for _, heading, _ in columns:
        table.add_column(heading, justify="right")
    table.add_column("count")
    for result, figures in zip(results, medians, strict=True):
        cells = [format(figures[name], form) if name in figures else "" for name, _, form in columns]
        count = "right" if not result.faults else "WRONG"
        table.add_row(result.workload.name, result.way, f"{result.messages:,}", *cells, count)
    console.print(table)
    _print_words(console, results, facts)


def _print_words(console: Console, results: Sequence[Result], facts: dict[str, Any]) -> None:
    for result in results:
        for fault in result.faults:
            console.print(f"{result.workload.name} via {result.way}: {fault}", style="red", markup=False)
    for name, about in {result.workload.name: result.workload.about for result in results}.items():
        console.print(f"{name}: {about}", markup=False, style="dim")
    for note in NOTES:
        console.print(note, markup=False, style="dim")
    console.print(", ".join(f"{name} {value}" for name, value in facts.items() if name not in _APART), markup=False)
    for name, durability in facts.get("peers", {}).items():
        console.print(f"{name}: {durability}", markup=False)
    if facts["filesystem"] == "tmpfs":
        console.print("the stores were in memory, where an fsync costs nothing: choose a folder on a disk with --dir")


def _rounded(figures: Figures) -> Figures:
    return {name: round(value, 4) for name, value in figures.items()}
