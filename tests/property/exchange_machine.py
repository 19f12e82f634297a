"""What can be asked of the exchange, at random: sends, polls, settlements, deaths and time."""

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from adapter.core.commands import Ack, Claim, Extend, GiveBack, Nack, Replay, Resolve, Tick, Unpark
from tests.property.exchange_model import CAP, LEASE
from tests.property.modelled import AGENTS, RECIPIENTS, ModelledMachine
from tests.support.clock import us
from tests.support.factories import START_US, new_key, send

agents = st.sampled_from(AGENTS)
channels = st.sampled_from(sorted(RECIPIENTS))
indexes = st.integers(0, 10**6)
more = st.integers(0, 3).map(lambda n: n == 0)  # whether the command waits for others to share its group


class DiskFullError(Exception):
    """Ends a transaction badly."""


class ExchangeMachine(ModelledMachine):
    """The commands that agents and the orchestrator give, on the engine without a disk."""

    @rule(to=channels, task=st.sampled_from([None, None, "a", "b"]), critical=more, wait=more,
          life=st.sampled_from([None, None, None, 5, 40, -1]))  # fmt: skip
    def send(self, to, task, critical, life, wait):
        """A new message."""
        expires = None if life is None else START_US + us(self.seconds + life)
        command = send(
            "pm", to, critical=critical, expires_at_us=expires, task_id=task,
            payload={"n": len(self.sends)},
        )  # fmt: skip
        self.sends.append(command)
        self._ask(command, wait=wait)

    @precondition(lambda self: self.sends)
    @rule(index=indexes, wait=more)
    def send_again(self, index, wait):
        """A retry of the same send."""
        self._ask(self.sends[index % len(self.sends)], wait=wait)

    @precondition(lambda self: self.sends)
    @rule(index=indexes, wait=more)
    def send_other_content(self, index, wait):
        """A key that is used twice for two things."""
        known = self.sends[index % len(self.sends)]
        key = known.envelope["idempotency_key"]
        self._ask(send("pm", idempotency_key=key, payload=new_key()), wait=wait)

    @rule(agent=agents, count=st.integers(1, 5), park=st.booleans(), wait=more)
    def poll(self, agent, count, park, wait):
        """A poll, parked or not."""
        self.tickets += 1
        self._ask(Claim(agent, count, self.tickets, park), wait=wait)

    @precondition(lambda self: self.model.parked)
    @rule(index=indexes, wait=more)
    def unpark(self, index, wait):
        """A parked poll whose wait is over."""
        agent, ticket, _ = self.model.parked[index % len(self.model.parked)]
        self._ask(Unpark(agent, ticket), wait=wait)

    def _token(self, agent, index):
        """One of the newest tokens mostly, and sometimes any that ever was."""
        known = self.tokens[agent]
        return known[-1 - (index % min(len(known), 4))] if index % 5 else known[index % len(known)]

    @rule(agent=agents, chosen=st.lists(indexes, min_size=1, max_size=4), wait=more)
    def ack(self, agent, chosen, wait):
        """Tokens fresh and stale, some twice."""
        if self.tokens[agent]:
            tokens = tuple(self._token(agent, index) for index in chosen)
            self._ask(Ack(agent, tokens, {tokens[0]: b"1"}), wait=wait)

    @rule(agent=agents, index=indexes, mode=st.sampled_from(["release", "fail", "fail", "refuse"]), wait=more)
    def nack(self, agent, index, mode, wait):
        """Every mode, with any token."""
        if self.tokens[agent]:
            self._ask(Nack(agent, self._token(agent, index), mode, "why"), wait=wait)

    @rule(agent=agents, index=indexes, seconds=st.sampled_from([1, 10, 100]), wait=more)
    def extend(self, agent, index, seconds, wait):
        """A longer lease, or a shorter one."""
        if self.tokens[agent]:
            self._ask(Extend(agent, (self._token(agent, index),), us(seconds)), wait=wait)

    @rule(agent=agents, chosen=st.lists(indexes, min_size=1, max_size=4), wait=more)
    def give_back(self, agent, chosen, wait):
        """An answer that did not reach its receiver."""
        if self.tokens[agent]:
            self._ask(GiveBack(agent, tuple(self._token(agent, index) for index in chosen)), wait=wait)

    @precondition(lambda self: self.model.deliveries())
    @rule(index=indexes, wait=more)
    def replay(self, index, wait):
        """What is dead is to be tried again; often two say so at once."""
        place = self.model.place(index)
        if index % 3 == 0:
            self._ask(Replay(*place), wait=True)
        self._ask(Replay(*place), wait=wait)

    @precondition(lambda self: self.model.deliveries())
    @rule(index=indexes, wait=more)
    def resolve(self, index, wait):
        """What is dead is dealt with."""
        self._ask(Resolve(*self.model.place(index), "done by hand"), wait=wait)

    @rule(agent=agents, mode=st.sampled_from(["release", "fail", "refuse"]))
    def the_old_comes_back_beside_the_new(self, agent, mode):
        """One is refused, the next is handed out, and then the first is replayed, handed out and given up."""
        self._commit()
        before = len(self.tokens[agent])
        self._ask(Claim(agent, 1, 0, park=False))
        for token in self.tokens[agent][before:]:
            self._ask(Nack(agent, token, "refuse", "no"))
            self._ask(Claim(agent, 1, 0, park=False))
            self._ask(Replay(int(token.split(".")[0], 16), agent))
            self._ask(Claim(agent, 1, 0, park=False))
            self._ask(Nack(agent, self.tokens[agent][-1], mode, "no"))

    @rule(seconds=st.sampled_from([0.5, 1, 4, 15, 30, 31]), tick=st.integers(0, 4).map(bool))
    def time_passes(self, seconds, tick):
        """Mostly the tick that is due comes, and sometimes it is late."""
        self._commit()
        self.seconds += seconds
        if tick:
            self._ask(Tick())

    @rule(agent=agents, count=st.integers(2, 5))
    def a_receiver_crashes(self, agent, count):
        """It polled and is never heard of again; the backoff of what it held is over."""
        self._commit()
        self._ask(Claim(agent, count, 0, park=False))
        self.seconds += LEASE + 1
        self._ask(Tick())
        self.seconds += CAP

    @rule(agent=agents, count=st.integers(2, 5))
    def a_receiver_fails_at_the_first(self, agent, count):
        """It polled, could not do what came first, and says so; the backoff is over."""
        self._commit()
        before = len(self.tokens[agent])
        self._ask(Claim(agent, count, 0, park=False))
        for token in self.tokens[agent][before : before + 1]:
            self._ask(Nack(agent, token, "fail", None))
        self.seconds += CAP

    @rule()
    def restart(self):
        """`kill -9` after a commit, and a start."""
        self._commit()
        self._load()
        self._rows_are_the_models()

    @rule(agent=agents, count=st.integers(1, 5))
    def a_group_is_rolled_back(self, agent, count):
        """The disk was full: nothing of the group happened, and memory is read again."""
        group = [*self.group, Claim(agent, count, 0, park=True), send(), Tick()]
        self.group = []
        try:
            with self.engine.begin() as store:
                self.exchange.apply(group, store, self._now())
                raise DiskFullError
        except DiskFullError:
            self._load()
        self._rows_are_the_models()
