"""Replaying recorded runs: speakers mapped to agents, content carried unchanged, the adapter killed half-way."""

import asyncio
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict

from multiclaw.cli.exits import FAILED, Exit
from multiclaw.client import Message
from multiclaw.demo.narrator import Narrator
from multiclaw.demo.stage import Stage
from shared.envelope import Identifier
from shared.limits import ENVELOPE_BYTES_MAX
from shared.model import Model, check
from shared.problems import Problem
from shared.strict_json import decode_object

_LINE_BYTES_MAX: Final = ENVELOPE_BYTES_MAX - 4_096
"""What a line may have, so that the envelope around it stays within its own limit."""

_CHANNEL: Final = "product"
_WINDOW: Final = 200
"""Messages before any one recipient: well under the 500 of a queue and the 1,000 of an outbox, so that nothing
is evicted while the adapter is away."""

_RUNS_AT_ONCE: Final = 8


class Row(Model):
    """One recorded message. `to` is null for what was said to all. Other fields of a line are not carried."""

    model_config = ConfigDict(extra="ignore")

    run: Identifier
    step: int
    sender: str
    to: str | None
    kind: str
    content: str


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
    except (OSError, EOFError, zlib.error) as error:
        raise Exit(FAILED, f"the corpus {path} cannot be read: {error}") from error
    runs: dict[str, list[Row]] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            row = _row(path, number, line)
            runs.setdefault(row.run, []).append(row)
    if not runs:
        raise Exit(FAILED, f"the corpus {path} holds no messages")
    return [list(_cast(run, agents)) for run in list(runs.values())[:runs_max]]


def _row(path: Path, number: int, line: bytes) -> Row:
    if len(line) > _LINE_BYTES_MAX:
        raise Exit(FAILED, f"{path}, line {number}: it has {len(line)} bytes, and a message takes {_LINE_BYTES_MAX}")
    try:
        return check(Row, decode_object(line))
    except Problem as problem:
        raise Exit(FAILED, f"{path}, line {number}: {problem.detail}") from problem


def _cast(run: list[Row], agents: tuple[str, ...]) -> Iterator[Step]:
    """Speakers become agents: one of the same name where there is one, else the next in turn."""
    cast: dict[str, str] = {}
    for row in run:
        for speaker in (row.sender, row.to):
            if speaker is not None and speaker not in cast:
                cast[speaker] = _part(speaker, cast, agents)
        to = _CHANNEL if row.to is None else f"@{cast[row.to]}"
        yield Step(cast[row.sender], to, row.model_dump())


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
