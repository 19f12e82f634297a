"""An exchange beside its model: groups of commands, what must come of each, and what must hold after each group."""

import contextlib
import json

import hypothesis.strategies as st
from hypothesis.stateful import initialize, invariant

from adapter.core.commands import Ack, Claim, Extend, GiveBack, Nack, Replay, Resolve, Send, Sent, Tick, Unpark
from adapter.core.delivery import State
from adapter.core.exchange import Exchange
from adapter.core.policy import Now
from shared.problems import Problem
from tests.property.exchange_model import ATTEMPTS, BASE, CAP, LEASE, QUEUE_MAX, RESERVE, Message, Model
from tests.property.steps import CountedMachine
from tests.support.clock import us
from tests.support.engines import ENGINES
from tests.support.factories import START_US, now, policy, topology
from tests.support.packing import packing

RECIPIENTS = {"product": ("pm", "engineering", "qa"), "platform": ("pm", "engineering", "adapter"), "@qa": ("qa",)}
AGENTS = ["pm", "engineering", "qa"]
TOPOLOGY = topology(tuple(AGENTS))
GROUP_MAX = 6
OBJECTS_MIN = st.sampled_from([1, 1, 2, 100])


class ModelledMachine(CountedMachine):
    """One exchange, one engine, one model; what can happen is said by those who inherit."""

    engine_name = "memory"

    @initialize(objects_min=OBJECTS_MIN)
    def start(self, objects_min):
        """An empty store; most mailboxes pack all but the first of what waits."""
        self.early = contextlib.ExitStack()
        self.early.enter_context(packing(objects_min))
        self.engine = ENGINES[self.engine_name]()
        self.seconds = 0.0
        self.tickets = 0
        self.model = Model()
        self.group = []
        self.sends = []
        self.tokens = {agent: [] for agent in AGENTS}
        self.policy = policy(
            lease_seconds=LEASE, attempts_max=ATTEMPTS, retry_base_seconds=BASE, retry_cap_seconds=CAP,
            queue_max=QUEUE_MAX, critical_reserve=RESERVE, **self._more_rules(),
        )  # fmt: skip
        self._load()

    def _more_rules(self):
        """Those of a machine that has more to ask."""
        return {}

    def _recipients(self, channel):
        """Who gets a message to that channel now."""
        return RECIPIENTS[channel]

    def teardown(self):
        """Let the engine go."""
        if hasattr(self, "engine"):
            self.engine.close()
            self.early.close()

    def _load(self):
        self.exchange = Exchange(self._topology(), self.engine.snapshot(), self.policy, self._now())
        self.model.tokens.clear()
        self.model.parked.clear()

    def _topology(self):
        """Who is there."""
        return TOPOLOGY

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
        message, word = self.model.send(asked, self._recipients(command.channel), self.seconds, self._replaced(command))
        if word in ("new", "duplicate"):
            assert isinstance(outcome, Sent), outcome
            assert (outcome.duplicate, outcome.channel, outcome.sequence) == (
                word == "duplicate", message.channel, message.sequence,
            )  # fmt: skip
            return lambda: self._check_reports(message, outcome)
        assert isinstance(outcome, Problem)
        assert outcome.kind == word
        return None

    def _replaced(self, command):
        """The death that a send deals with."""
        return

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
            entry.die("refused", self.seconds)
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
        assert {agent: depths.get(agent, 0) for agent in AGENTS} == {
            agent: len(self.model.queue(agent)) for agent in AGENTS
        }
        for agent in AGENTS:
            queue = self.model.queue(agent)
            assert len(queue) <= QUEUE_MAX + RESERVE
            assert sum(not entry.message.critical for entry in queue) <= QUEUE_MAX
            ends = [entry.lease_until for entry in queue if entry.state == "leased"]
            due = self.exchange.next_due_us()
            ends += [e.message.expires for e in queue if e.state == "queued" and e.message.expires is not None]
            assert not ends or (due is not None and due <= START_US + us(min(ends)))
