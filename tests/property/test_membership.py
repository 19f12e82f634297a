"""Changes of members, whatever they are: what they make of the members there are, and of messages on their way."""

import hypothesis.strategies as st
from hypothesis import given, settings

from adapter.core.commands import Ack, DecideTopology, ProposeTopology, Sent, TakeFile
from adapter.core.exchange import Exchange
from adapter.core.membership import differences
from adapter.core.reshaping import reshaped
from adapter.core.routing import PLATFORM, Topology
from shared.config import Membership
from shared.names import ADAPTER, GOVERNOR
from shared.problems import Problem
from shared.topology import TopologyChange
from tests.support.engines import ENGINES, ask
from tests.support.factories import claim, membership, now, policy, send

NAMES = ("orchestrator", "pm", "qa", "ops", ADAPTER, "nobody")
CHANNELS = ("product", PLATFORM, "new")
BASE = membership(("orchestrator", "pm", "qa"))

names = st.lists(st.sampled_from(NAMES), max_size=3)
one_name = st.sampled_from(NAMES).map(lambda name: [name])
roles = st.fixed_dictionaries({"role": st.sampled_from(["orchestrator", "execution"])})
agents_changes = st.fixed_dictionaries(
    {}, optional={"add": st.dictionaries(st.sampled_from(NAMES), roles, max_size=2), "remove": one_name | names}
)
channels_changes = st.fixed_dictionaries(
    {},
    optional={
        "add": st.dictionaries(st.sampled_from(CHANNELS), st.fixed_dictionaries({"members": names}), max_size=1),
        "change": st.dictionaries(
            st.sampled_from(CHANNELS), st.fixed_dictionaries({}, optional={"add": one_name, "remove": one_name})
        ),
        "remove": st.sampled_from(CHANNELS).map(lambda name: [name]),
    },
)
changes = st.one_of(
    st.fixed_dictionaries({"agents": agents_changes}),
    st.fixed_dictionaries({"channels": channels_changes}),
    st.fixed_dictionaries({"agents": agents_changes, "channels": channels_changes}),
).map(TopologyChange.model_validate)


def attempted(current, change):
    """The members after a change, or as they were where it was refused, with a pointer into it."""
    try:
        return reshaped(current, change)
    except Problem as problem:
        if problem.kind != "invalid-field" or not (problem.field or "").startswith("/change/"):
            raise
        return current


@given(st.lists(changes, max_size=8))
def test_members_stay_whole(proposed):
    """What is not refused is what a file may say, with an orchestrator and `platform`, as it was asked for."""
    current = BASE
    for change in proposed:
        before = current.model_copy(deep=True)
        after = attempted(current, change)
        if after is not current:
            assert Membership.model_validate(after.model_dump()) == after
            assert set(after.agents) == (set(before.agents) | set(change.agents.add)) - set(change.agents.remove)
            assert any(agent.role == "orchestrator" for agent in after.agents.values())
            assert PLATFORM in after.channels
        assert current == before
        assert bool(differences(before, after)) == (before != after)
        current = after


USUAL = [
    {"agents": {"remove": ["qa"]}},
    {"agents": {"add": {"qa": {}}}, "channels": {"change": {"product": {"add": ["qa"]}}}},
    {"agents": {"add": {"ops": {}}}, "channels": {"change": {"product": {"add": ["ops"]}}}},
    {"agents": {"remove": ["ops"]}},
    {"channels": {"change": {"product": {"remove": ["qa"]}}}},
    {"channels": {"change": {"product": {"add": ["qa"]}}}},
    {"channels": {"add": {"new": {"members": ["pm", "orchestrator"]}}}},
    {"channels": {"remove": ["new"]}},
]
"""Such as are taken more often than not; any change at all is seldom one that could be."""

usual = st.sampled_from(USUAL).map(TopologyChange.model_validate)
acts = st.one_of(
    st.tuples(st.just("change"), usual | changes, st.sampled_from([True, True, False])),
    st.tuples(st.just("send"), st.sampled_from(NAMES[:4]), st.sampled_from(("product", "new", "@qa", "@ops"))),
    st.tuples(st.just("poll"), st.sampled_from(NAMES[:4]), st.integers(1, 3)),
    st.tuples(st.just("ack"), st.integers(0, 5), st.just(None)),
    st.tuples(st.just("restart"), st.just(None), st.just(None)),
)


class Scene:
    """An exchange over an engine, and what was promised to senders: the recipients of each message."""

    def __init__(self, kind):
        self.engine = ENGINES[kind]()
        self.promised = {}
        self.removed = set()
        self.ever = set(BASE.agents)
        self.held = []
        self.places = {}
        self.restart()
        self.do(TakeFile(BASE))

    def restart(self):
        """The process is gone; a new one reads the store."""
        snapshot = self.engine.snapshot()
        version = snapshot.applied[-1]
        self.exchange = Exchange(Topology.of(version.membership, version.version), snapshot, policy(), now())

    def do(self, *commands):
        """The outcome of the last of one group."""
        return ask(self.exchange, self.engine, now(), *commands)[-1]

    def act(self, what, first, second):
        """One act."""
        if what == "change":
            self.change(first, approve=second)
        elif what == "send" and first in self.ever:  # nobody else is let in
            self.note(self.do(send(first, second)), first, second)
        elif what == "poll":
            handed = self.do(claim(first, second))
            self.held += [(first, each.delivery_id) for each in handed] if isinstance(handed, list) else []
        elif what == "ack" and self.held:
            agent, token = self.held.pop(first % len(self.held))
            self.do(Ack(agent, (token,), {}))
        elif what == "restart":
            self.restart()

    def change(self, change, *, approve):
        """Proposed and decided."""
        topology = self.exchange.topology
        before = set(topology.roles)
        proposal = self.do(ProposeTopology("orchestrator", change, "r"))
        if not isinstance(proposal, Problem):
            self.do(DecideTopology(proposal.version, approve, GOVERNOR, None))
            self.ever |= set(self.exchange.topology.roles)
            gone = before - set(self.exchange.topology.roles)
            assert (self.exchange.topology is topology) is not approve
            for number, recipients in self.promised.items():
                self.removed |= {(number, agent) for agent in recipients & gone}

    def note(self, sent, sender, channel):
        """A send and its answer."""
        topology = self.exchange.topology
        may = channel in topology.members and sender in topology.roles
        assert isinstance(sent, Sent) == (may and (channel[0] == "@" or sender in topology.members[channel]))
        if isinstance(sent, Sent):
            assert [report.agent for report in sent.recipients] == list(topology.members[channel])
            assert sent.sequence == self.places.get(channel, 0) + 1
            self.places[channel] = sent.sequence
            self.promised[len(self.promised) + 1] = set(topology.members[channel])

    def check(self):
        """Each message is in one state for each recipient it was promised to; only removal killed any."""
        with self.engine.begin() as store:
            for number, recipients in self.promised.items():
                rows = {row.recipient: row for row in store.deliveries_of(number)}
                assert set(rows) == recipients
                dead = {agent for agent, row in rows.items() if row.reason is not None}
                assert all((number, agent) in self.removed for agent in dead)
                waiting = {agent for agent, row in rows.items() if row.state.word in {"queued", "leased"}}
                assert waiting <= set(self.exchange.topology.roles)
                assert all(store.find_dead_letter(number, agent) is not None for agent in dead)
        depths = self.exchange.depths()
        assert set(depths) == set(self.exchange.topology.roles)


@given(st.sampled_from(sorted(ENGINES)), st.lists(acts, min_size=5, max_size=30))
@settings(max_examples=200, deadline=None)
def test_messages_outlive_every_change(kind, steps):
    """Whatever is proposed, approved, sent, taken and restarted: recipients are told once and kept to."""
    scene = Scene(kind)
    for step in steps:
        scene.act(*step)
        scene.check()
    scene.engine.close()
