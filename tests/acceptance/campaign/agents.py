"""What agents do: send until they have a 2xx, take, process, acknowledge, and sometimes fail.

The rules an agent keeps: it waits for one send's 2xx before the next, it repeats a call that had no answer, and when
it does not finish a message it leaves later ones of the same order key alone.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from shared.times import from_iso
from tests.acceptance.campaign.notes import Notes, Work
from tests.acceptance.campaign.plan import Step
from tests.support.agent_client import AgentAnswer, AgentClient

_NACKS = ("release", "fail", "refuse")
_ACTS = {"ack": 880, "release": 30, "fail": 40, "refuse": 20, "lapse": 25, "late": 5}
"""What a receiver does with a message, out of 1,000. `lapse` says nothing; `late` acks when the lease is over."""

_HEEDS = 0.7
"""How often a receiver heeds its own nack. Otherwise it goes on with the line, and what it acks then must be stale."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient agents are, in seconds, and the clock they read.

    `patience` is how long a call is repeated: no sidecar stays away for nearly so long. `rest` is how long a receiver
    does something else after each poll, at most.
    """

    call: float = 5.0
    patience: float = 30.0
    retry: float = 0.02
    poll: float = 0.3
    rest: float = 0.0
    late: float = 0.05
    now: Callable[[], float] = time.time


QUICK = Pace()
"""Everything happens within a round."""


class Sender:
    """One agent's sends of one round, in order. `begun` follows all senders of the round."""

    def __init__(self, agent: str, socket: Path, notes: Notes, begun: "Progress", pace: Pace = QUICK) -> None:
        self._agent = agent
        self._socket = socket
        self._notes = notes
        self._begun = begun
        self._pace = pace

    async def run(self, steps: Iterable[Step]) -> None:
        """Send everything."""
        async with AgentClient(self._socket, seconds_max=self._pace.call) as client:
            for step in steps:
                await asyncio.sleep(step.think_seconds)
                self._begun.step()
                for _ in range(step.times):
                    await self._send(client, step.messages)

    async def _send(self, client: AgentClient, messages: Sequence[Mapping[str, Any]]) -> None:
        if len(messages) == 1:
            answer = await insist(client, "/v1/messages", messages[0], self._pace)
            self._begun.answered(self._agent, answer.status)
            self._notes.sent(self._agent, messages[0], answer.status, answer.document)
            return
        answer = await insist(client, "/v1/messages/batch", {"messages": messages}, self._pace)
        self._begun.answered(self._agent, max(outcome["code"] for outcome in answer.document["outcomes"]))
        for message, outcome in zip(messages, answer.document["outcomes"], strict=True):
            told = outcome.get("answer") or outcome.get("problem")
            self._notes.sent(self._agent, message, outcome["code"], told)


class Receiver:
    """One lane of an agent that takes messages until it is told to stop. An agent may have several lanes."""

    def __init__(
        self,
        agent: str,
        socket: Path,
        notes: Notes,
        rng: random.Random,
        *,
        careful: bool = False,
        pace: Pace = QUICK,
    ) -> None:
        self._agent = agent
        self._socket = socket
        self._notes = notes
        self._rng = rng
        self._careful = careful
        self._pace = pace

    async def run(self, stop: asyncio.Event) -> None:
        """Take, process and settle; what is in hand when it is told to stop is settled first."""
        async with AgentClient(self._socket, seconds_max=self._pace.call) as client:
            while not stop.is_set():
                await asyncio.sleep(self._rng.uniform(0, self._pace.rest))
                wait = self._rng.uniform(0, self._pace.poll)
                answer = await _once(client, "GET", f"/v1/messages?wait={wait:.3f}&max={self._rng.randint(1, 8)}")
                if answer is None or answer.status == 503:
                    await asyncio.sleep(self._pace.retry)
                elif answer.status != 200:
                    self._notes.faults.append(
                        f"a poll of {self._agent} was answered {answer.status}: {answer.document}"
                    )
                else:
                    self._notes.received(self._agent, answer.document["messages"])
                    await self._process(client, answer.document["messages"])

    async def _process(self, client: AgentClient, messages: Sequence[Mapping[str, Any]]) -> None:
        blocked: set[str] = set()
        failed: set[str] = set()
        group: list[Work] = []
        for message in messages:
            work = Work(self._agent, message["delivery_id"], message["attempt"], message["envelope"])
            if work.line in blocked:
                continue
            work.careless = work.line in failed
            act = self._act()
            if act in _NACKS:
                answered = await self._nack(client, work, act)
                if act != "refuse":
                    failed.add(work.line)
                if not answered or (work.line in failed and self._rng.random() < _HEEDS):
                    blocked.add(work.line)
            elif act == "lapse":
                blocked.add(work.line)
            else:
                self._notes.worked.append(work)
                group.append(work)
                if act == "late":
                    await self._over(message["lease_expires_at"])
                if self._rng.random() < 0.5:
                    blocked |= await self._ack(client, group)
                    group = []
        if group:
            await self._ack(client, group)

    def _act(self) -> str:
        if self._careful:
            return "ack"
        (act,) = self._rng.choices(list(_ACTS), list(_ACTS.values()))
        return act

    async def _ack(self, client: AgentClient, group: Sequence[Work]) -> set[str]:
        """Acknowledge; the lines of what was not taken."""
        answer = await insist(client, "/v1/messages/ack", _ack_body(group), self._pace)
        words = _ack_words(answer)
        if answer.status not in (200, 409):
            self._notes.faults.append(f"an ack of {self._agent} was answered {answer.status}: {answer.document}")
        for work in group:
            if work.delivery_id in words:
                self._notes.confirm(work, words[work.delivery_id])
        lost = [work for work in group if work.delivery_id not in words]
        self._notes.counts["acks stale"] += len(lost)
        return {work.line for work in lost}

    async def _nack(self, client: AgentClient, work: Work, mode: str) -> bool:
        """Nack once, as the lease takes care of the rest; whether it had its 2xx."""
        body = {"delivery_id": work.delivery_id, "mode": mode, "reason": "the campaign says so"}
        answer = await _once(client, "POST", "/v1/messages/nack", body)
        if answer is None or answer.status in (409, 503):
            return False
        if answer.status != 200:
            self._notes.faults.append(f"a nack of {self._agent} was answered {answer.status}: {answer.document}")
            return False
        self._notes.counts[f"nacks {mode}"] += 1
        if mode == "refuse":
            work.confirmed = "dead"
            self._notes.refused.append(work)
        return True

    async def _over(self, lease_expires_at: str) -> None:
        """Wait until a lease is over, and its message may be in other hands."""
        left = from_iso(lease_expires_at) / 1_000_000 - self._pace.now()
        await asyncio.sleep(max(0.0, left) + self._pace.late)


class Progress:
    """How far the senders of a round are: a count to wait for, and answers to lie in wait for."""

    def __init__(self) -> None:
        self._count = 0
        self._ended = False
        self._changed = asyncio.Condition()
        self._waking: set[asyncio.Task[None]] = set()
        self._traps: list[tuple[str, Callable[[], None]]] = []

    def step(self) -> None:
        """One more send is begun."""
        self._count += 1
        self._wake()

    def answered(self, agent: str, code: int) -> None:
        """A send has its answer. What lies in wait for it acts now, before its sender knows."""
        parties = {agent} if code == 202 else {agent, "adapter"}  # the adapter has no part in a 202
        sprung = [trap for trap in self._traps if trap[0] in parties]
        for trap in sprung:
            self._traps.remove(trap)
            trap[1]()

    def at_answer(self, party: str, act: Callable[[], None]) -> None:
        """Lie in wait for the next answer that `party` has a part in; at the end it acts anyway."""
        if self._ended:
            act()
        else:
            self._traps.append((party, act))

    def end(self) -> None:
        """No more will come; nobody waits any longer."""
        self._ended = True
        traps, self._traps = self._traps, []
        for _, act in traps:
            act()
        self._wake()

    async def next(self) -> None:
        """Wait until another send is begun, or the end."""
        await self.reached(self._count + 1)

    async def reached(self, count: int) -> None:
        """Wait until so many sends were begun, or the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._ended or self._count >= count)

    async def ended(self) -> None:
        """Wait for the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._ended)

    def _wake(self) -> None:
        task = asyncio.ensure_future(self._notify())
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def insist(client: AgentClient, path: str, body: Mapping[str, Any], pace: Pace = QUICK) -> AgentAnswer:
    """The same call until it is answered with anything but 503."""
    async with asyncio.timeout(pace.patience):
        while True:
            answer = await _once(client, "POST", path, body)
            if answer is not None and answer.status != 503:
                return answer
            await asyncio.sleep(pace.retry)


async def _once(client: AgentClient, method: str, target: str, body: Any = None) -> AgentAnswer | None:
    """One call; None where no answer came."""
    try:
        return await client.call(method, target, body)
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None


def _ack_body(group: Sequence[Work]) -> dict[str, Any]:
    ids = [work.delivery_id for work in group]
    return {"delivery_ids": ids, "results": {ids[0]: {"by": "the campaign"}}}


def _ack_words(answer: AgentAnswer) -> dict[str, str]:
    acked = dict.fromkeys(answer.document.get("acked") or (), "acked")
    return acked | dict.fromkeys(answer.document.get("deferred") or (), "deferred")
