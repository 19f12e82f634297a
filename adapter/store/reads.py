"""Reading units: ranges of a channel, steps of a task, and the tree it belongs to. They run beside the writer."""

import sqlite3
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from adapter.core.tasks import Step
from adapter.store.envelopes import read_stored, stored_envelope
from adapter.store.jump import read_losses
from adapter.store.names import Names
from adapter.store.queries import SQL
from shared.lost_ranges import Missing, explain
from shared.problems import Problem
from shared.times import iso

RANGE_MESSAGES_MAX: Final = 100
_RANGE_BYTES_MAX: Final = 4 * 1024 * 1024
_STEPS_MAX: Final = 1_000
_TREE_TASKS_MAX: Final = 1_000
_TREE_STEPS_MAX: Final = 10_000
"""Bounds of one answer; a tree beyond them is cut, breadth first, and its root is sought no further up than that."""


@dataclass(frozen=True, slots=True)
class Range:
    """Stored envelopes of a channel, the holes before, between and behind them with what is known of each, the
    channel's newest sequence, and where the next page starts."""

    envelopes: list[bytes]
    holes: list[Missing]
    last: int
    next: int | None


def read_range(connection: sqlite3.Connection, names: Names, channel: str, first: int, final: int) -> Range:
    """Messages `first` to `final`, as far as they are retained.

    Raises `range-not-retained` for a start in the future, for one older than all that is retained, and for a range of
    which nothing is; it tells from where on there is something, and what of the range was lost.
    """
    channel_id = names.channel_ids[channel]
    last = _last_sequence(connection, channel_id)
    if first > last:
        detail = f"{channel} ends at {last}; {first} lies in the future."
        raise Problem("range-not-retained", detail, field="query from", last=last)
    rows = connection.execute(SQL["range"], (channel_id, first, final, RANGE_MESSAGES_MAX + 1)).fetchall()
    losses = read_losses(connection, names)
    if not rows or first < (_first_retained(connection, channel_id, 1) or 0):
        retained_from = _first_retained(connection, channel_id, first)
        raise _gone(channel, explain(first, min(final, last), losses.of(channel)), retained_from, last)
    page = _page([(sequence, stored_envelope(envelope)) for sequence, envelope in rows], first, min(final, last), last)
    page.holes[:] = [part for hole in page.holes for part in explain(*hole[:2], losses.of(channel))]
    return page


def _gone(channel: str, missing: list[Missing], retained_from: int | None, last: int) -> Problem:
    lost = [part for part in missing if part.reason is not None]
    detail = f"{channel} is retained from {retained_from or last + 1}; {missing[0].first} is gone."
    if lost:
        spans = ", ".join(f"{part.first} to {part.last}" for part in lost)
        detail += f" The store was put back to an older state, or repaired with losses: {spans} were lost."
    told = [{"from": part.first, "to": part.last, "reason": part.reason} for part in lost]
    more: dict[str, Any] = {"lost": told} if told else {}
    return Problem("range-not-retained", detail, field="query from", retained_from=retained_from, last=last, **more)


def _first_retained(connection: sqlite3.Connection, channel_id: int, first: int) -> int | None:
    row: tuple[int | None] = connection.execute(SQL["first_retained"], (channel_id, first)).fetchone()
    return row[0]


def _page(rows: list[tuple[int, bytes]], first: int, final: int, last: int) -> Range:
    taken: list[bytes] = []
    holes: list[Missing] = []
    size, expected, following = 0, first, None
    for sequence, envelope in rows:
        if sequence > expected:
            holes.append(Missing(expected, sequence - 1, None))
        size += len(envelope)
        if taken and (len(taken) == RANGE_MESSAGES_MAX or size > _RANGE_BYTES_MAX):
            following = sequence
            break
        taken.append(envelope)
        expected = sequence + 1
    if following is None and expected <= final:
        holes.append(Missing(expected, final, None))
    return Range(taken, holes, last, following)


def _last_sequence(connection: sqlite3.Connection, channel_id: int) -> int:
    rows: list[tuple[int, str, int]] = connection.execute(SQL["channels"]).fetchall()
    return next(last for number, _, last in rows if number == channel_id)


def read_steps(
    connection: sqlite3.Connection, names: Names, task_id: str, intents: dict[str, str], steps_max: int = _STEPS_MAX
) -> list[Step]:
    """The messages about a task, oldest first; `intents` maps contract types."""
    rows = connection.execute(SQL["task_steps"], (task_id, min(steps_max, _STEPS_MAX)))
    return [_step(row, names, intents) for row in rows]


def _step(row: tuple[Any, ...], names: Names, intents: dict[str, str]) -> Step:
    _, channel_id, sequence, accepted_at_us, sender_id, task_id, parent_task_id, envelope = row
    kind = read_stored(envelope)["type"]
    return Step(
        task_id,
        parent_task_id,
        names.channel_names[channel_id],
        sequence,
        iso(accepted_at_us),
        names.agent_names[sender_id],
        kind,
        intents.get(kind, "inform"),
    )


def read_tree(
    connection: sqlite3.Connection, names: Names, task_id: str, intents: dict[str, str]
) -> dict[str, list[Step]]:
    """Every task of the tree that `task_id` belongs to, its root first, each with its steps.

    A parent that stands twice on the way up or down ends the walk there: stored lineage may be cyclic.
    """
    tree: dict[str, list[Step]] = {}
    waiting = deque([_root(connection, task_id)])
    steps_left = _TREE_STEPS_MAX
    while waiting and len(tree) < _TREE_TASKS_MAX and steps_left > 0:
        current = waiting.popleft()
        if current in tree:
            continue
        tree[current] = read_steps(connection, names, current, intents, steps_left)
        steps_left -= len(tree[current])
        children = connection.execute(SQL["children_of_task"], (current, _TREE_TASKS_MAX)).fetchall()
        waiting += [child for (child,) in children]
    return tree


def _root(connection: sqlite3.Connection, task_id: str) -> str:
    seen = {task_id}
    while len(seen) < _TREE_TASKS_MAX:
        row = connection.execute(SQL["parent_of_task"], (task_id,)).fetchone()
        if row is None or row[0] in seen:
            break
        task_id = row[0]
        seen.add(task_id)
    return task_id
