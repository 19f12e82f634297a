"""Random interleavings of everything that can be asked of the exchange, against the model, on every engine.

Groups are of one command or several; some are rolled back, as by a full disk; and the process restarts at any moment.
After every group the stored rows must be the model's, and every answer must be what the model gives.
"""

import json

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import initialize, invariant, precondition, rule

from adapter.core.commands import Ack, Claim, Extend, GiveBack, Nack, Replay, Resolve, Send, Sent, Tick, Unpark
from adapter.core.delivery import State
from adapter.core.exchange import Exchange
from adapter.core.policy import Now
from shared.problems import Problem
from tests.property.exchange_model import ATTEMPTS, BASE, CAP, LEASE, QUEUE_MAX, RESERVE, Message, Model
from tests.property.steps import CountedMachine, take_steps
from tests.support.clock import us
from tests.support.engines import ENGINES
from tests.support.factories import START_US, new_key, now, policy, send, topology

RECIPIENTS = {"product": ("pm", "engineering", "qa"), "platform": ("pm", "engineering", "adapter"), "@qa": ("qa",)}
AGENTS = ["pm", "engineering", "qa"]
TOPOLOGY = topology(tuple(AGENTS))
GROUP_MAX = 6

agents = st.sampled_from(AGENTS)
channels = st.sampled_from(sorted(RECIPIENTS))
indexes = st.integers(0, 10**6)
more = st.integers(0, 3).map(lambda n: n == 0)  # whether the command waits for others to share its group


class DiskFullError(Exception):
    """Ends a transaction badly."""


class ExchangeMachine(CountedMachine):
    """One exchange, one engine, one model."""

    engine_name = "memory"

    @initialize()
    def start(self):
        """An empty store."""
        self.engine = ENGINES[self.engine_name]()
        self.seconds = 0.0
        self.tickets = 0
        self.model = Model()
        self.group = []
        self.sends = []
        self.tokens = {agent: [] for agent in AGENTS}
        self.policy = policy(
            lease_seconds=LEASE, attempts_max=ATTEMPTS, retry_base_seconds=BASE, retry_cap_seconds=CAP,
            queue_max=QUEUE_MAX, critical_reserve=RESERVE,
        )  # fmt: skip
        self._load()

    def teardown(self):
        """Let the engine go."""
        if hasattr(self, "engine"):
            self.engine.close()

    def _load(self):
        self.exchange = Exchange(TOPOLOGY, self.engine.snapshot(), self.policy, self._now())
        self.model.parked.clear()

    def _now(self) -> Now:
        return now(self.seconds)

    def _ask(self, command, *, wait=False):
        self.group.append(command)
        if not wait or len(self.group) >= GROUP_MAX:
            self._commit()

    def _commit(self):
        group, self.group = self.group, []
        with self.engine.begin() as store:
            outcomes = self.exchange.apply(group, store, self._now())
        checks = [self._expect(command, outcome) for command, outcome in zip(group, outcomes, strict=True)]
        self._expect_parked()
        for check in checks:
            check()
        self._rows_are_the_models()

    # What can happen

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

    @precondition(lambda self: self.model.messages)
    @rule(index=indexes, wait=more)
    def replay(self, index, wait):
        """What is dead is to be tried again; often two say so at once."""
        place = self.model.place(index)
        if index % 3 == 0:
            self._ask(Replay(*place), wait=True)
        self._ask(Replay(*place), wait=wait)

    @precondition(lambda self: self.model.messages)
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

    # What must come of it. Each gives a check to be made when the whole group is decided.

    def _expect(self, command, outcome):
        handlers = {
            Send: self._expect_send, Claim: self._expect_claim, Unpark: self._expect_unpark, Ack: self._expect_ack,
            Nack: self._expect_nack, Extend: self._expect_extend, GiveBack: self._expect_give_back,
            Tick: self._expect_tick, Replay: self._expect_replay, Resolve: self._expect_resolve,
        }  # fmt: skip
        return handlers[type(command)](command, outcome) or (lambda: None)

    def _expect_send(self, command, outcome):
        envelope = command.envelope
        content = json.dumps({k: v for k, v in envelope.items() if k != "idempotency_key"}, sort_keys=True)
        line = envelope["task_id"] if envelope.get("task_id") else "channel " + command.channel
        expires = None if command.expires_at_us is None else (command.expires_at_us - START_US) / 1e6
        asked = Message(
            command.sender, envelope["idempotency_key"], content, command.channel, line, command.critical, expires
        )
        message, word = self.model.send(asked, RECIPIENTS[command.channel], self.seconds)
        if word in ("new", "duplicate"):
            assert isinstance(outcome, Sent), outcome
            assert (outcome.duplicate, outcome.channel, outcome.sequence) == (
                word == "duplicate", message.channel, message.sequence,
            )  # fmt: skip
            return lambda: self._check_reports(message, outcome)
        assert isinstance(outcome, Problem)
        assert outcome.kind == word
        return None

    def _check_reports(self, message, outcome):
        found = {r.agent: (r.status, r.reason, r.unread) for r in outcome.recipients}
        assert found == {
            agent: (entry.state, entry.reason, len(self.model.queue(agent))) for agent, entry in message.entries.items()
        }

    def _expect_claim(self, command, outcome):
        batch = self.model.claim(command.recipient, command.count, self.seconds)
        if not batch and command.park:
            assert outcome is None
            self.model.parked.append((command.recipient, command.ticket, command.count))
        else:
            self._expect_batch(command.recipient, batch, outcome)

    def _expect_batch(self, recipient, batch, handed):
        shown = [(item.attempt, item.lease_until_us, json.loads(item.envelope)) for item in handed]
        assert [(attempt, until, e["to"], e["channel_sequence_id"]) for attempt, until, e in shown] == [
            (entry.handovers, START_US + us(entry.lease_until), entry.message.channel, entry.message.sequence)
            for entry in batch
        ]
        for entry, item in zip(batch, handed, strict=True):
            entry.token = item.delivery_id
            self.tokens[recipient].append(item.delivery_id)

    def _expect_parked(self):
        served = {ticket: (recipient, handed) for ticket, recipient, handed in self.exchange.handed_over}
        for parked in list(self.model.parked):
            recipient, ticket, count = parked
            batch = self.model.claim(recipient, count, self.seconds)
            if batch:
                self.model.parked.remove(parked)
                assert ticket in served, "a parked poll was not woken"
                self._expect_batch(recipient, batch, served.pop(ticket)[1])
        assert not served

    def _expect_unpark(self, command, outcome):
        self.model.parked = [entry for entry in self.model.parked if entry[1] != command.ticket]

    def _expect_ack(self, command, outcome):
        acked, stale = self.model.ack(command.recipient, command.delivery_ids)
        if stale:
            assert (outcome.kind, outcome.extra) == ("stale-lease", {"stale": stale, "acked": acked})
        else:
            assert outcome == acked

    def _expect_nack(self, command, outcome):
        entry = self.model.holds(command.recipient, command.delivery_id)
        if entry is None:
            assert outcome.kind == "stale-lease"
        elif command.mode == "refuse":
            entry.die("refused")
        elif command.mode == "release":
            self.model.release(command.recipient, entry)
        else:
            self.model.fail(command.recipient, entry, self.seconds, silent=False)
        assert entry is None or outcome.status == entry.state

    def _expect_extend(self, command, outcome):
        entries = [self.model.holds(command.recipient, token) for token in command.delivery_ids]
        if None in entries:
            assert outcome.kind == "stale-lease"
            return
        for entry in entries:
            entry.lease_until = self.seconds + command.extension_us / 1e6
        assert outcome.lease_until_us == START_US + us(entries[0].lease_until)

    def _expect_give_back(self, command, outcome):
        for token in command.delivery_ids:
            entry = self.model.holds(command.recipient, token)
            if entry is not None:
                self.model.release(command.recipient, entry)

    def _expect_tick(self, command, outcome):
        self.model.tick(self.seconds)

    def _expect_replay(self, command, outcome):
        entry = self.model.messages[command.message_id - 1].entries[command.recipient]
        kind = self.model.replay(command.recipient, entry, self.seconds)
        assert (outcome.kind if kind else outcome.status) == (kind or "queued")

    def _expect_resolve(self, command, outcome):
        kind = self.model.resolve(self.model.messages[command.message_id - 1].entries[command.recipient])
        assert (outcome.kind if kind else outcome.status) == (kind or "dead")

    # What must hold at any moment

    def _rows_are_the_models(self):
        with self.engine.begin() as store:
            for number, message in enumerate(self.model.messages, 1):
                rows = {row.recipient: row for row in store.deliveries_of(number)}
                assert {
                    agent: (
                        row.state.word, row.reason, row.token, row.handovers, row.failures, row.solo, row.cycles
                    )
                    for agent, row in rows.items()
                } == {agent: entry.shown for agent, entry in message.entries.items()}  # fmt: skip
                for agent, entry in message.entries.items():
                    self._letter_is_the_models(store.find_dead_letter(number, agent), entry)
                assert rows.get("adapter") is None or rows["adapter"].state is State.ACKED

    def _letter_is_the_models(self, letter, entry):
        """One record for what ever died, and it is open exactly while somebody must decide."""
        assert (letter is not None) == (entry.cycles > 0)
        if letter is not None:
            assert (letter.cycles, letter.closure) == (entry.cycles, entry.closure)
            assert entry.state != "dead" or letter.last.reason == entry.reason
            assert (entry.state == "dead") >= (letter.closure != "replayed")

    @invariant()
    def queues_are_bounded_and_a_deadline_is_never_missed(self):
        """Depths are honest, and the next tick comes in time for the first lease to lapse."""
        if not hasattr(self, "engine"):
            return
        depths = self.exchange.depths()
        assert {agent: depths[agent] for agent in AGENTS} == {agent: len(self.model.queue(agent)) for agent in AGENTS}
        for agent in AGENTS:
            queue = self.model.queue(agent)
            assert len(queue) <= QUEUE_MAX + RESERVE
            assert sum(not entry.message.critical for entry in queue) <= QUEUE_MAX
            ends = [entry.lease_until for entry in queue if entry.state == "leased"]
            due = self.exchange.next_due_us()
            ends += [e.message.expires for e in queue if e.state == "queued" and e.message.expires is not None]
            assert not ends or (due is not None and due <= START_US + us(min(ends)))


class SqliteMachine(ExchangeMachine):
    """The same on the adapter's own schema and statements."""

    engine_name = "sqlite"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("machine", "steps"), [(ExchangeMachine, 80_000), (SqliteMachine, 20_000)])
def test_the_exchange_does_what_the_model_says(machine, steps):
    """Whatever is asked in whatever order, rolled back or restarted in between: answers and rows are the model's."""
    assert take_steps(machine, steps) >= steps
