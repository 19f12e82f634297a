"""The rest of what the exchange decides, mixed with all before: rates, retention, members, and deaths dealt with anew.

Retention decides for itself when it goes to work, so the model does not foresee it: what is gone is looked for after
each tick, must have been allowed to go, and must be gone after enough of them.
"""

import hypothesis.strategies as st
from hypothesis.stateful import initialize, precondition, rule

from adapter.core.commands import (
    Ack,
    Claim,
    DecideTopology,
    Extend,
    GiveBack,
    Nack,
    ProposeTopology,
    TakeFile,
    Tick,
    Unpark,
)
from adapter.core.rates import Rate
from adapter.core.retention import Ages, RetentionPolicy
from adapter.core.routing import Topology
from shared.config import Agent, Channel, Membership
from shared.topology import AgentsChange, ChannelsChange, MembersChange, TopologyChange
from tests.property.exchange_machine import ExchangeMachine, channels, indexes, more
from tests.property.modelled import AGENTS, OBJECTS_MIN, RECIPIENTS
from tests.support.clock import us
from tests.support.factories import send

_RATES = {"normal": (1, 3), "critical": (1, 2)}
_AGE, _CHECK = 300.0, 60.0
_TICKS_OF_A_PASS = 16
_PAUSE = 1 / 32
"""Longer than retention's own, and exact as a fraction."""


_BOSS = "orchestrator"
_GUEST = "qa"
"""Who leaves and comes back."""

_LEAVE = TopologyChange(agents=AgentsChange(remove=[_GUEST]))
_RETURN = TopologyChange(
    agents=AgentsChange(add={_GUEST: Agent()}),
    channels=ChannelsChange(change={"product": MembersChange(add=[_GUEST])}),
)


class WholeMachine(ExchangeMachine):
    """Everything. `away` tells whether the guest has left."""

    @initialize(objects_min=OBJECTS_MIN)
    def start(self, objects_min):
        """The file says who is there."""
        self.away = False
        self.ended = []
        super().start(objects_min)
        self._ask(TakeFile(_membership()))
        self._load()

    def _more_rules(self):
        rates = {name: Rate(per_second, burst) for name, (per_second, burst) in _RATES.items()}
        retention = RetentionPolicy(Ages(us(_AGE), None), {}, check_us=us(_CHECK), agree_us=us(_CHECK))
        return {"rates": rates, "retention": retention}

    def _topology(self):
        self.model.rates = _RATES
        return Topology.of(self.engine.snapshot().applied[-1].membership)

    def _recipients(self, channel):
        """None where there is no such agent any more."""
        if channel.startswith("@"):
            return None if self.away and channel == "@" + _GUEST else (channel[1:],)
        return tuple(agent for agent in RECIPIENTS[channel] if agent != _GUEST or not self.away)

    def _ask(self, command, *, wait=False):
        """Who is no agent has no say: the link does not let it in."""
        own = isinstance(command, (Claim, Unpark, Ack, Nack, Extend, GiveBack))
        if not (own and self.away and command.recipient == _GUEST):
            super()._ask(command, wait=wait)

    # What can happen

    @rule(to=channels, wait=more)
    def send_for_ever(self, to, wait):
        """A message whose contract says to keep it."""
        command = send("pm", to, keep_forever=True, payload={"n": len(self.sends)})
        self.sends.append(command)
        self._ask(command, wait=wait)

    @rule(to=channels, critical=more, seconds=st.sampled_from([0.25, 0.5, 1.5]))
    def an_agent_is_in_a_loop(self, to, critical, seconds):
        """It sends until it is stopped, and goes on when it may again, or too early."""
        for pause in (0, seconds, seconds):
            self._commit()
            self.seconds += pause
            for _ in range(4):
                self.sends.append(send("pm", to, critical=critical, payload={"n": len(self.sends)}))
                self._ask(self.sends[-1], wait=True)

    @precondition(lambda self: self.model.deliveries())
    @rule(index=indexes, wait=more)
    def resend(self, index, wait):
        """A new message deals with a death; often with one that is no longer to be dealt with."""
        number, agent = self.model.place(index)
        old = self.model.messages[number - 1]
        replaces = {"recipient": agent, "channel": old.channel, "channel_sequence_id": old.sequence}
        command = send(_BOSS, "@" + agent, replaces=replaces, payload={"n": len(self.sends)})
        self.sends.append(command)
        self._ask(command, wait=wait)

    @rule()
    def the_guest_leaves_or_returns(self):
        """The orchestrator proposes, a human approves."""
        self._commit()
        self._ask(ProposeTopology(_BOSS, _RETURN if self.away else _LEAVE, "why"))
        self._ask(DecideTopology(self.proposed, True, "human-governor", None))

    @rule(days=st.just(400))
    def what_is_old_goes(self, days):
        """Two passes of retention, since a trust in clocks that a restart has shaken needs one to settle."""
        self._commit()
        for pause in (days, _CHECK):
            self.seconds += pause
            for _ in range(_TICKS_OF_A_PASS):
                self.seconds += _PAUSE
                self._ask(Tick())
        forgotten = [message for message in self.model.messages if self._may_go(message) and not message.pruned]
        assert forgotten == []

    # What must come of it

    def _commit(self):
        super()._commit()
        for number, message in enumerate(self.model.messages, 1):
            assert message.pruned == (self._is_gone(number) and bool(message.sequence))

    def _expect(self, command, outcome):
        others = {
            TakeFile: lambda *_: None, ProposeTopology: self._expect_proposal, DecideTopology: self._expect_decision
        }  # fmt: skip
        if type(command) in others:
            return others[type(command)](command, outcome) or (lambda: None)
        return super()._expect(command, outcome)

    def _expect_send(self, command, outcome):
        known = any(
            (message.sender, message.key) == (command.sender, command.envelope["idempotency_key"])
            for message in self.model.messages
            if not message.pruned
        )
        if not known and self._recipients(command.channel) is None:
            assert outcome.kind == "unknown-recipient"
            return None
        old = self._replaced_message(command)
        if not known and old is not None and old.pruned:
            assert outcome.kind == "not-found"
            return None
        count = len(self.model.messages)
        check = super()._expect_send(command, outcome)
        for message in self.model.messages[count:]:
            message.kept = command.keep_forever
        return check

    def _replaced(self, command):
        old = self._replaced_message(command)
        return None if old is None else old.entries.get(command.envelope["replaces"]["recipient"])

    def _replaced_message(self, command):
        place = command.envelope.get("replaces")
        return place and next(
            message
            for message in self.model.messages
            if (message.channel, message.sequence) == (place["channel"], place["channel_sequence_id"])
        )

    def _expect_ack(self, command, outcome):
        if not self._forgotten(command.recipient, command.delivery_ids, outcome):
            super()._expect_ack(command, outcome)

    def _expect_nack(self, command, outcome):
        if not self._forgotten(command.recipient, [command.delivery_id], outcome):
            super()._expect_nack(command, outcome)

    def _expect_extend(self, command, outcome):
        if not self._forgotten(command.recipient, command.delivery_ids, outcome):
            super()._expect_extend(command, outcome)

    def _forgotten(self, recipient, tokens, outcome):
        """Whether one of these is of a message that is gone; then it is refused as unknown."""
        unknown = any(self.model.by_token(recipient, token) is None for token in tokens)
        assert not unknown or outcome.kind == "unknown-delivery"
        return unknown

    def _expect_replay(self, command, outcome):
        entry = self.model.messages[command.message_id - 1].entries[command.recipient]
        expires = entry.message.expires
        if self.away and command.recipient == _GUEST and entry.open and (expires is None or expires > self.seconds):
            assert outcome.kind == "unknown-recipient"
        else:
            super()._expect_replay(command, outcome)

    def _expect_proposal(self, command, outcome):
        self.proposed = outcome.version

    def _expect_decision(self, command, outcome):
        self.away = not self.away
        if self.away:
            for entry in self.model.queue(_GUEST):
                entry.die("refused", self.seconds)
            self.ended = [ticket for agent, ticket, _ in self.model.parked if agent == _GUEST]
            self.model.parked = [poll for poll in self.model.parked if poll[0] != _GUEST]

    def _expect_parked(self):
        """Polls of who has left end with nothing, and all others as ever."""
        ended, self.ended = self.ended, []
        assert [ticket for ticket, _, handed in self.exchange.handed_over if not handed] == ended
        self.exchange.handed_over = [served for served in self.exchange.handed_over if served[2]]
        super()._expect_parked()

    def _expect_tick(self, command, outcome):
        super()._expect_tick(command, outcome)
        for number, message in enumerate(self.model.messages, 1):
            if not message.pruned and self._is_gone(number):
                assert self._may_go(message), "it was still needed, or too young"
                message.pruned, message.entries = True, {}

    def _is_gone(self, number):
        with self.engine.begin() as store:
            return not store.deliveries_of(number)

    def _may_go(self, message):
        unsettled = any(entry.state in ("queued", "leased") or entry.open for entry in message.entries.values())
        return not (unsettled or message.kept) and self.seconds - message.accepted > _AGE


def _membership():
    agents = {_BOSS: Agent(role=_BOSS)} | {agent: Agent() for agent in AGENTS}
    members = {name: [agent for agent in RECIPIENTS[name] if agent != "adapter"] for name in ("product", "platform")}
    return Membership(agents=agents, channels={name: Channel(members=who) for name, who in members.items()})
