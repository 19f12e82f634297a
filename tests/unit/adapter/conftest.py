"""An exchange over an engine without a disk, and the few words its tests are written in."""

from collections.abc import Callable
from typing import Any

import pytest

from adapter.core.commands import Ack, Command, HandedOver, Nack, Sent, Tick
from adapter.core.exchange import Exchange
from adapter.core.policy import Now, Policy
from adapter.core.routing import Topology
from shared.problems import Problem
from tests.support.clock import us
from tests.support.engines import MemoryEngine, ask
from tests.support.factories import claim, exchange, now, policy, send, topology


class Bench:
    """An exchange, its store, and the time, which tests move: `wall_step_seconds` is how far the wall was set."""

    def __init__(self, rules: Policy | None = None, members: Topology | None = None) -> None:
        self.engine = MemoryEngine()
        self.policy = rules or policy()
        self.topology = members or topology()
        self.exchange: Exchange = exchange(self.policy, members=self.topology)
        self.seconds = 0.0
        self.wall_step_seconds = 0.0

    @property
    def now(self) -> Now:
        """Both clocks; the wall may have been set."""
        at = now(self.seconds)
        return Now(at.wall_us + us(self.wall_step_seconds), at.steady_us)

    def group(self, *commands: Command) -> list[Any]:
        """Outcomes of one committed group."""
        return ask(self.exchange, self.engine, self.now, *commands)

    def do(self, command: Command) -> Any:
        """The outcome of a group of one."""
        return self.group(command)[0]

    def refused(self, command: Command) -> Problem:
        """The problem that a command is answered with."""
        outcome = self.do(command)
        assert isinstance(outcome, Problem), outcome
        return outcome

    def send(self, *args: Any, **fields: Any) -> Sent:
        """A send that is accepted."""
        sent = self.do(send(*args, **fields))
        assert isinstance(sent, Sent), sent
        return sent

    def poll(self, recipient: str = "qa", count: int = 10) -> list[HandedOver]:
        """Hand-overs, at once."""
        handed = self.do(claim(recipient, count))
        assert isinstance(handed, list)
        return handed

    def ack(self, *handed: HandedOver, recipient: str = "qa", results: dict[str, bytes] | None = None) -> Any:
        """The outcome of an ack."""
        return self.do(Ack(recipient, tuple(item.delivery_id for item in handed), results or {}))

    def nack(self, handed: HandedOver, mode: str = "fail", reason: str | None = None) -> Any:
        """The outcome of a nack."""
        return self.do(Nack("qa", handed.delivery_id, mode, reason))

    def wait(self, seconds: float) -> None:
        """Time passes, and the tick that is due then comes."""
        self.seconds += seconds
        self.do(Tick())

    def states(self, message_id: int) -> dict[str, str]:
        """State by recipient, as stored."""
        with self.engine.begin() as store:
            return {row.recipient: row.state.word for row in store.deliveries_of(message_id)}

    def row(self, message_id: int, recipient: str = "qa") -> Any:
        """A delivery as stored."""
        with self.engine.begin() as store:
            return store.find_delivery(message_id, recipient)

    def letter(self, message_id: int, recipient: str = "qa") -> Any:
        """The record of a delivery that died, as stored."""
        with self.engine.begin() as store:
            return store.find_dead_letter(message_id, recipient)

    def restart(self) -> None:
        """The process is gone; a new one reads the store."""
        snapshot = self.engine.snapshot()
        stored = snapshot.applied[-1]
        members = Topology.of(stored.membership, stored.version) if snapshot.topologies else self.topology
        self.exchange = Exchange(members, snapshot, self.policy, now(self.seconds))


@pytest.fixture
def bench() -> Bench:
    """The default limits."""
    return Bench()


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    """A bench with other limits."""
    return Bench
