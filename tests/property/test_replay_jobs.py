"""Replay jobs among everything else that happens: restarts, full disks, replays by hand, receivers fast and slow.

Whatever the order: each dead letter that matched is tried again exactly once by somebody, in the order of its messages,
and the jobs' counts say how many of them were theirs.
"""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from adapter.core.commands import Ack, Claim, Nack, Replay, StartReplay, Tick
from adapter.core.dead_letters import Filter
from adapter.core.exchange import Exchange
from adapter.core.replay_job import JobState
from tests.support.engines import ENGINES, ask
from tests.support.factories import now, policy, send, topology

AGENTS = ("pm", "qa")
TOPOLOGY = topology(AGENTS)
ACTS = ("tick", "tick", "tick", "poll", "poll", "restart", "rollback", "by hand", "second job", "send")


class DiskFullError(Exception):
    """Ends a transaction badly."""


class World:
    """An exchange over an engine, and what its receivers saw."""

    def __init__(self, engine_name, queue_max):
        self.engine = ENGINES[engine_name]()
        self.policy = policy(queue_max=queue_max, critical_reserve=0)
        self.seconds = 0.0
        self.by_hand = 0
        self.got = {agent: [] for agent in AGENTS}
        self.restart()

    def ask(self, *commands):
        """The outcomes of one committed group."""
        return ask(self.exchange, self.engine, now(self.seconds), *commands)

    def restart(self):
        """The process was killed."""
        self.exchange = Exchange(TOPOLOGY, self.engine.snapshot(), self.policy, now(self.seconds))

    def tick(self):
        """Time passes, and the tick comes."""
        self.seconds += 0.05
        self.ask(Tick())

    def rollback(self):
        """The disk is full just when the tick comes."""
        self.seconds += 0.05
        try:
            with self.engine.begin() as store:
                self.exchange.apply([Tick()], store, now(self.seconds))
                raise DiskFullError
        except DiskFullError:
            self.restart()

    def kill(self, agent):
        """A message that is refused."""
        self.ask(send("pm", f"@{agent}"))
        ((handed,),) = self.ask(Claim(agent, 1, 0, park=False))
        self.ask(Nack(agent, handed.delivery_id, "refuse", None))

    def poll(self, agent):
        """The receiver takes three and acks them."""
        (handed,) = self.ask(Claim(agent, 3, 0, park=False))
        if handed:
            self.ask(Ack(agent, tuple(each.delivery_id for each in handed), {}))
        self.got[agent] += [int(each.delivery_id.split(".")[0], 16) for each in handed]

    def jobs(self):
        """Those that are stored."""
        return self.engine.snapshot().replays

    def drain(self):
        """Until no job runs and nobody is handed anything any more."""
        while any(job.state is JobState.RUNNING for job in self.jobs()) or any(self.exchange.depths().values()):
            self.tick()
            for agent in AGENTS:
                self.poll(agent)

    def letters(self):
        """The records of all that ever died, in the order of their messages."""
        last = self.engine.snapshot().last_message_id
        with self.engine.begin() as store:
            found = [store.find_dead_letter(n, agent) for n in range(1, last + 1) for agent in AGENTS]
        return [letter for letter in found if letter is not None]

    def act(self, name, number):
        """One of `ACTS`; the number chooses what it is done to."""
        agent = AGENTS[number % 2]
        if name == "poll":
            self.poll(agent)
        elif name == "by hand":
            (outcome,) = self.ask(Replay(1 + number % 40, agent))
            self.by_hand += getattr(outcome, "status", None) == "queued"
        elif name == "second job":
            self.ask(StartReplay(f"job-{number % 3}", Filter(), 100.0, None))
        elif name == "send":
            self.ask(send("pm", f"@{agent}"))
        else:
            getattr(self, name)()


@pytest.mark.parametrize("engine_name", ENGINES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    dead=st.lists(st.sampled_from(AGENTS), min_size=1, max_size=40),
    queue_max=st.sampled_from([2, 7, 500]),
    rate=st.sampled_from([None, 7.0, 400.0]),
    acts=st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 10**6)), max_size=60),
)
def test_each_dead_letter_is_replayed_once(engine_name, dead, queue_max, rate, acts):
    """By one of the jobs or by hand, and acked once; in order for its recipient, where nobody meddled."""
    world = World(engine_name, queue_max)
    for agent in dead:
        world.kill(agent)
    world.seconds += 1
    ((job, _),) = world.ask(StartReplay("job", Filter(), rate, None))
    assert job.matched == len(dead)
    for name, number in acts:
        world.act(name, number)
    world.drain()
    jobs, letters = world.jobs(), world.letters()
    assert {job.state for job in jobs} == {JobState.DONE}
    tries = [letter.cycles - (letter.closure is None) for letter in letters]
    assert sum(job.replayed for job in jobs) + world.by_hand == sum(tries)
    assert sum(job.refused for job in jobs) == 0
    assert all(tries[: len(dead)]), "somebody has tried each of them again"
    for agent in AGENTS:
        handed = [n for n in world.got[agent] if n <= len(dead)]
        assert len(handed) == len(set(handed))
        if not world.by_hand and all(letter.cycles == 1 for letter in letters):
            assert handed == [n for n, who in enumerate(dead, 1) if who == agent]
    world.engine.close()
