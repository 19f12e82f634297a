"""What agents do: send until they have a 2xx, take, process, acknowledge, and sometimes fail.

The rules an agent keeps: it waits for one send's 2xx before the next, it repeats a call that had no answer, and when
it does not finish a message it leaves later ones of the same order key alone.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from tests.acceptance.campaign.notes import Notes, Work
from tests.acceptance.campaign.plan import Step
from tests.support.agent_client import AgentAnswer, AgentClient

_CALL_SECONDS_MAX = 5.0
_PATIENCE_SECONDS = 30.0
"""How long a call is repeated: no sidecar stays away for nearly so long."""

_RETRY_SECONDS = 0.02
_POLL_SECONDS_MAX = 0.3

Turn = tuple[str, str]
"""What a receiver does with a message, and the mode of the nack where it is one."""


class Sender:
    """One agent's sends of one round, in order. `begun` counts them for all senders of the round."""

    def __init__(self, agent: str, socket: Path, notes: Notes, begun: "Progress") -> None:
        self._agent = agent
        self._socket = socket
        self._notes = notes
        self._begun = begun

    async def run(self, steps: Sequence[Step]) -> None:
        """Send everything."""
        async with AgentClient(self._socket, seconds_max=_CALL_SECONDS_MAX) as client:
            for step in steps:
                await asyncio.sleep(step.think_seconds)
                self._begun.step()
                for _ in range(step.times):
                    await self._send(client, step.messages)

    async def _send(self, client: AgentClient, messages: Sequence[Mapping[str, Any]]) -> None:
        if len(messages) == 1:
            answer = await insist(client, "/v1/messages", messages[0])
            self._notes.sent(self._agent, messages[0], answer.status, answer.document)
            return
        answer = await insist(client, "/v1/messages/batch", {"messages": messages})
        for message, outcome in zip(messages, answer.document["outcomes"], strict=True):
            told = outcome.get("answer") or outcome.get("problem")
            self._notes.sent(self._agent, message, outcome["code"], told)


class Receiver:
    """One lane of an agent that takes messages until it is told to stop. An agent may have several lanes."""

    def __init__(self, agent: str, socket: Path, notes: Notes, rng: random.Random, *, careful: bool = False) -> None:
        self._agent = agent
        self._socket = socket
        self._notes = notes
        self._rng = rng
        self._careful = careful

    async def run(self, stop: asyncio.Event) -> None:
        """Take, process and settle; what is in hand when it is told to stop is settled first."""
        async with AgentClient(self._socket, seconds_max=_CALL_SECONDS_MAX) as client:
            while not stop.is_set():
                wait = self._rng.uniform(0, _POLL_SECONDS_MAX)
                answer = await _once(client, "GET", f"/v1/messages?wait={wait:.3f}&max={self._rng.randint(1, 8)}")
                if answer is None or answer.status == 503:
                    await asyncio.sleep(_RETRY_SECONDS)
                elif answer.status != 200:
                    self._notes.faults.append(
                        f"a poll of {self._agent} was answered {answer.status}: {answer.document}"
                    )
                else:
                    self._notes.received(self._agent, answer.document["messages"])
                    await self._process(client, answer.document["messages"])

    async def _process(self, client: AgentClient, messages: Sequence[Mapping[str, Any]]) -> None:
        blocked: set[str] = set()
        group: list[Work] = []
        for message in messages:
            envelope = message["envelope"]
            line = envelope.get("task_id") or "channel " + envelope["to"]
            if line in blocked:
                continue
            work = Work(self._agent, message["delivery_id"], message["attempt"], envelope)
            act, mode = self._turn()
            if act == "ack":
                self._notes.worked.append(work)
                group.append(work)
                if self._rng.random() < 0.5:
                    blocked |= await self._ack(client, group)
                    group = []
            elif act == "lapse" or not await self._nack(client, work, mode):
                blocked.add(line)
        if group:
            await self._ack(client, group)

    def _turn(self) -> Turn:
        if self._careful:
            return "ack", ""
        chance = self._rng.random()
        for act, mode, below in (("nack", "release", 0.03), ("nack", "fail", 0.07), ("nack", "refuse", 0.09)):
            if chance < below:
                return act, mode
        return ("lapse", "") if chance < 0.12 else ("ack", "")

    async def _ack(self, client: AgentClient, group: Sequence[Work]) -> set[str]:
        """Acknowledge; the lines of what was not taken."""
        answer = await insist(client, "/v1/messages/ack", _ack_body(group))
        words = _ack_words(answer)
        if answer.status not in (200, 409):
            self._notes.faults.append(f"an ack of {self._agent} was answered {answer.status}: {answer.document}")
        for work in group:
            if work.delivery_id in words:
                self._notes.confirm(work, words[work.delivery_id])
        lost = [work.envelope for work in group if work.delivery_id not in words]
        self._notes.counts["acks stale"] += len(lost)
        return {envelope.get("task_id") or "channel " + envelope["to"] for envelope in lost}

    async def _nack(self, client: AgentClient, work: Work, mode: str) -> bool:
        """Nack once, as the lease takes care of the rest; whether later ones of the line may go on."""
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
        return mode == "refuse"


class Progress:
    """A count that others wait for."""

    def __init__(self) -> None:
        self._count = 0
        self._ended = False
        self._changed = asyncio.Condition()
        self._waking: set[asyncio.Task[None]] = set()

    def step(self) -> None:
        """One more."""
        self._count += 1
        self._wake()

    def end(self) -> None:
        """No more will come; nobody waits any longer."""
        self._ended = True
        self._wake()

    async def reached(self, count: int) -> None:
        """Wait until so many came, or the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._ended or self._count >= count)

    def _wake(self) -> None:
        task = asyncio.ensure_future(self._notify())
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def insist(client: AgentClient, path: str, body: Mapping[str, Any]) -> AgentAnswer:
    """The same call until it is answered with anything but 503."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            answer = await _once(client, "POST", path, body)
            if answer is not None and answer.status != 503:
                return answer
            await asyncio.sleep(_RETRY_SECONDS)


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
