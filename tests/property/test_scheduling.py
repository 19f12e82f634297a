"""Random histories of scheduled sends, on every engine: each is waiting, cancelled or sent, and sent once, in order.

Time passes with ticks and without, the wall clock is stepped, groups are rolled back, and the process restarts. The
model is a list: what was accepted, when it is due by the clock that counts, and what became of it.
"""

import json
from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import initialize, precondition, rule

from adapter.core.commands import CancelScheduled, Scheduled, Send, Sent, Settled, Tick
from adapter.core.exchange import Exchange
from adapter.core.policy import Now
from tests.property.steps import CountedMachine, take_steps
from tests.support.clock import us
from tests.support.engines import ENGINES, ask
from tests.support.factories import START_US, claim, new_key, policy, scheduled, send, topology

indexes = st.integers(0, 10**6)
delays = st.sampled_from([-5, 0, 1, 1, 5, 5, 30, 3_600])
STEPS = [-3_600, -1, 1, 3_600]


@dataclass
class Known:
    """One accepted send. `due` is steady; a restart reads it anew off the wall."""

    command: Send
    wall_due: float
    due: float
    number: int
    state: str = "waiting"


class DiskFullError(Exception):
    """Ends a transaction badly."""


class SchedulingMachine(CountedMachine):
    """One exchange, one engine, one list."""

    engine_name = "memory"

    @initialize()
    def start(self):
        """An empty store, and both clocks at the same reading."""
        self.engine = ENGINES[self.engine_name]()
        self.steady = self.wall = 0.0
        self.known = []
        self.sent = []
        self.rules = policy(queue_max=10**6)
        self._load()

    def teardown(self):
        """Let the engine go."""
        if hasattr(self, "engine"):
            self.engine.close()

    def _load(self):
        """A new process; its steady clock starts at the wall's reading."""
        self.steady = self.wall
        self.exchange = Exchange(topology(), self.engine.snapshot(), self.rules, self._now())
        for one in self.known:
            one.due = one.wall_due

    def _now(self):
        return Now(START_US + us(self.wall), START_US + us(self.steady))

    def _do(self, command):
        (outcome,) = ask(self.exchange, self.engine, self._now(), command)
        return outcome

    def _release(self):
        """What the model sends at a tick: all that is due, by time and then by order of acceptance."""
        due = [one for one in self.known if one.state == "waiting" and one.due <= self.steady]
        for one in sorted(due, key=lambda one: (one.due, one.number)):
            self._send_now(one)

    def _send_now(self, one):
        one.state = "sent"
        self.sent.append(one.command.envelope["idempotency_key"])

    @rule(delay=delays)
    def schedule(self, delay):
        """A new one: it waits, or is sent at once where its time has passed."""
        command = scheduled(to="@qa", at=self.wall + delay, payload={"text": "x", "n": len(self.known)})
        one = Known(command, self.wall + delay, self.steady + delay, len(self.known))
        outcome = self._do(command)
        self.known.append(one)
        if delay <= 0:
            assert isinstance(outcome, Sent)
            self._send_now(one)
        else:
            assert outcome == Scheduled(duplicate=False, deliver_at_us=command.deliver_at_us)

    @precondition(lambda self: self.known)
    @rule(index=indexes)
    def schedule_again(self, index):
        """The same send: the answer tells what became of it, and nothing changes."""
        one = self.known[index % len(self.known)]
        outcome = self._do(one.command)
        if one.state == "waiting":
            assert outcome == Scheduled(duplicate=True, deliver_at_us=one.command.deliver_at_us)
        elif one.state == "sent":
            key = one.command.envelope["idempotency_key"]
            assert (outcome.duplicate, outcome.sequence) == (True, self.sent.index(key) + 1)
        else:
            assert outcome.kind == "not-scheduled"

    @precondition(lambda self: self.known)
    @rule(index=indexes, later=st.booleans())
    def use_its_key_for_something_else(self, index, later):
        """A conflict, whether that has a time or not; only of a cancelled one, whose key is free for others."""
        one = self.known[index % len(self.known)]
        fields = {"idempotency_key": one.command.envelope["idempotency_key"], "payload": {"text": new_key()}}
        if one.state == "cancelled" and not later:
            return
        other = scheduled(to="@qa", at=self.wall + 60, **fields) if later else send(to="@qa", **fields)
        assert self._do(other).kind == "idempotency-conflict"

    @precondition(lambda self: self.known)
    @rule(index=indexes)
    def cancel(self, index):
        """Too late for what was sent; as often as one likes for the rest."""
        one = self.known[index % len(self.known)]
        outcome = self._do(CancelScheduled("pm", one.command.idempotency_key))
        if one.state == "sent":
            assert outcome.kind == "not-scheduled"
        else:
            assert outcome == Settled("cancelled")
            one.state = "cancelled"

    @rule(seconds=st.sampled_from([0.5, 1, 4, 30, 3_600]), tick=st.integers(0, 3).map(bool))
    def time_passes(self, seconds, tick):
        """Mostly the tick that is due comes."""
        self.steady += seconds
        self.wall += seconds
        if tick:
            self._tick()

    @rule(step=st.sampled_from(STEPS))
    def the_wall_clock_is_set(self, step):
        """Nothing is due for it, and nothing less."""
        self.wall += step
        self._tick()

    def _tick(self):
        assert self._do(Tick()) is None
        self._release()
        self._nothing_is_late()

    @rule()
    def restart(self):
        """`kill -9` after a commit: the wall's word counts again."""
        self._load()

    @rule(seconds=st.sampled_from([1, 5, 3_600]))
    def a_release_is_rolled_back(self, seconds):
        """The disk was full: nothing was sent, and the next process sends it once."""
        self.steady += seconds
        self.wall += seconds
        try:
            with self.engine.begin() as store:
                self.exchange.apply([scheduled(to="@qa", at=self.wall + 5), Tick()], store, self._now())
                raise DiskFullError
        except DiskFullError:
            self._load()

    def _nothing_is_late(self):
        """After a tick the next one is due no later than the first that waits."""
        dues = [one.due for one in self.known if one.state == "waiting"]
        next_due_us = self.exchange.next_due_us()
        assert not dues or (next_due_us is not None and next_due_us <= START_US + us(min(dues)))

    @rule()
    def what_arrived_is_what_was_sent(self):
        """In the channel, in this order, each once; what waits or was cancelled is in no message."""
        with self.engine.begin() as store:
            envelopes = [json.loads(store.envelope_at("@qa", place)) for place in range(1, len(self.sent) + 1)]
            assert [envelope["idempotency_key"] for envelope in envelopes] == self.sent
            assert store.envelope_at("@qa", len(self.sent) + 1) is None
            for one in self.known:
                row = store.find_scheduled("pm", one.command.idempotency_key)
                found = "sent" if row is None else {"scheduled": "waiting"}.get(row.appointment.standing, "cancelled")
                assert found == one.state
        assert len(set(self.sent)) == len(self.sent)
        self._do(claim("qa"))


class SqliteMachine(SchedulingMachine):
    """The same on the adapter's own schema and statements."""

    engine_name = "sqlite"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("machine", "steps"), [(SchedulingMachine, 12_000), (SqliteMachine, 4_000)])
def test_what_is_scheduled_is_sent_once_and_in_order(machine, steps):
    """Whatever is asked, whatever the clocks do, rolled back or restarted in between."""
    assert take_steps(machine, steps) >= steps
