"""Replaying recorded runs: speakers mapped to agents, content carried unchanged, the adapter killed half-way."""

import asyncio
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from multiclaw.cli.exits import FAILED, Exit
from multiclaw.client import Message
from multiclaw.demo.narrator import Narrator
from multiclaw.demo.stage import Stage
from shared.problems import Problem
from shared.strict_json import decode_object

_FIELDS: Final = frozenset({"run", "step", "sender", "to", "kind", "content"})
_CHANNEL: Final = "product"
_WINDOW: Final = 200
"""Messages before any one recipient: well under the 500 of a queue and the 1,000 of an outbox, so that nothing
is evicted while the adapter is away."""

_RUNS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded message and the agents it is played by."""

    agent: str
    to: str
    payload: dict[str, Any]

    @property
    def run(self) -> str:
        """The recorded run it belongs to."""
        return str(self.payload["run"])


def read(path: Path, agents: tuple[str, ...], runs_max: int | None) -> list[list[Step]]:
    """The recorded runs of a JSON-lines file (`.gz` or not), each in its order; ends the verb on a bad line."""
    try:
        lines = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).splitlines()
    except (OSError, EOFError) as error:
        raise Exit(FAILED, f"the corpus {path} cannot be read: {error}") from error
    rows = [_row(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise Exit(FAILED, f"the corpus {path} holds no messages")
    runs = [list(rows_of_run) for _, rows_of_run in groupby(rows, key=lambda row: row["run"])]
    return [list(_cast(run, agents)) for run in runs[:runs_max]]


def _row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = decode_object(line)
    except Problem as problem:
        raise Exit(FAILED, f"{path}, line {number}: {problem.detail}") from problem
    missing = _FIELDS - row.keys()
    if missing:
        raise Exit(FAILED, f"{path}, line {number}: {', '.join(sorted(missing))} missing")
    return row


def _cast(run: list[dict[str, Any]], agents: tuple[str, ...]) -> Iterator[Step]:
    """Speakers become agents: one of the same name where there is one, else the next in turn."""
    cast: dict[str, str] = {}
    for row in run:
        for speaker in (row["sender"], row["to"]):
            if speaker is not None and speaker not in cast:
                cast[speaker] = _part(str(speaker), cast, agents)
        to = _CHANNEL if row["to"] is None else f"@{cast[row['to']]}"
        yield Step(cast[row["sender"]], to, row)


def _part(speaker: str, cast: dict[str, str], agents: tuple[str, ...]) -> str:
    return speaker.lower() if speaker.lower() in agents else agents[len(cast) % len(agents)]


class Replay:
    """One replay of recorded runs."""

    def __init__(self, runs: list[list[Step]], narrator: Narrator) -> None:
        self._runs = runs
        self._narrator = narrator

    async def play(self, stage: Stage) -> None:
        """Send every run in its order, several at a time, and kill the adapter when half has arrived."""
        total = sum(len(stage.members(step.to)) for run in self._runs for step in run)
        messages = sum(map(len, self._runs))
        self._narrator.act(f"replaying {len(self._runs)} recorded runs: {messages} messages, {total} deliveries")
        with self._narrator.progress("deliveries processed", total) as bar:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(stage, bar.reach))
                sending = group.create_task(self._send_all(stage))
                await stage.ledger.applied_in_all(total // 2)
                self._narrator.alarm("the adapter is killed with SIGKILL and kept down")
                seconds = await stage.outage(lambda: self._meanwhile(stage))
                self._narrator.act(f"the adapter is back, ready {seconds:.2f} s after its start")
                await sending
                await stage.quiet()
                watching.cancel()
            bar.reach(stage.ledger.applications)

    async def react(self, stage: Stage, agent: str, message: Message) -> None:
        """Recorded agents have said what they had to say."""

    async def _send_all(self, stage: Stage) -> None:
        waiting = iter(self._runs)

        async def worker() -> None:
            for run in waiting:
                for step in run:
                    await stage.ledger.room(_WINDOW)
                    await stage.send(step.agent, step.to, "note/1", step.payload, thread_id=step.run, task_id=step.run)

        async with asyncio.TaskGroup() as group:
            for _ in range(_RUNS_AT_ONCE):
                group.create_task(worker())

    async def _meanwhile(self, stage: Stage) -> None:
        """Wait until agents have sent into their outboxes, or have nothing left to send."""
        seen = len(stage.ledger.sent)
        last = sum(map(len, self._runs))
        for _ in range(100):
            if len(stage.ledger.sent) >= min(seen + 2 * _RUNS_AT_ONCE, last):
                break
            await asyncio.sleep(0.02)
        waiting = {agent: depth for agent, depth in (await stage.outboxes()).items() if depth}
        self._narrator.say(f"nothing is lost: outboxes hold {waiting}")

    async def _watch(self, stage: Stage, reach: Any) -> None:
        ledger = stage.ledger
        while True:
            async with ledger.changed:
                await ledger.changed.wait()
            reach(ledger.applications)
