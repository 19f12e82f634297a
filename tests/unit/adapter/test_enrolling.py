"""Changes of members in the exchange: proposed, decided, in force, and what becomes of messages."""

import pytest

from adapter.core.commands import (
    Ack,
    DecideTopology,
    Extend,
    GiveBack,
    Nack,
    NoteWritten,
    ProposeTopology,
    Replay,
    TakeFile,
    Unpark,
)
from adapter.core.enrolling import PROPOSALS_OPEN_MAX
from adapter.core.membership import FileState, Standing
from shared.problems import Problem
from shared.topology import TopologyChange
from tests.support.factories import AGENTS, claim, membership, send


@pytest.fixture
def bench(bench):
    """Version 1 is the default file."""
    assert bench.do(TakeFile(membership())).version.version == 1
    return bench


def propose(agents=None, channels=None, reason="because"):
    change = TopologyChange.model_validate({"agents": agents or {}, "channels": channels or {}})
    return ProposeTopology("orchestrator", change, reason)


REMOVE_QA = propose({"remove": ["qa"]})
ADD_OPS = propose({"add": {"ops": {}}}, {"change": {"product": {"add": ["ops"]}}})


def approve(number, note=None):
    return DecideTopology(number, True, "human-governor", note)


def deny(number, note=None):
    return DecideTopology(number, False, "human-governor", note)


def changed(bench, proposal):
    """It is proposed and approved; what is in force then."""
    version = bench.do(approve(bench.do(proposal).version))
    assert version.standing is Standing.CURRENT, version
    return version


def stored(bench, number):
    with bench.engine.begin() as store:
        return store.find_topology(number)


def test_a_proposal_changes_nothing_until_it_is_approved(bench):
    """It is stored with its base, and a human is called."""
    before = bench.exchange.topology
    proposal = bench.do(ADD_OPS)
    assert (proposal.version, proposal.base, proposal.standing) == (2, 1, Standing.PROPOSED)
    assert (proposal.proposed_by, proposal.reason, proposal.source) == ("orchestrator", "because", "proposal")
    assert proposal.changes == ("agent ops joins as execution", "ops joins product")
    assert [tuple(alarm) for alarm in bench.exchange._books.changes.alarms] == [
        ("topology", "orchestrator", "proposed")
    ]
    assert bench.exchange.topology is before
    assert stored(bench, 2) == proposal


def test_an_approval_is_in_force_with_its_commit(bench):
    """In the same group already, for what comes after it and not for what came before."""
    number = bench.do(ADD_OPS).version
    refused, decided, sent, handed = bench.group(send(to="@ops"), approve(number, "yes"), send(to="@ops"), claim("ops"))
    assert refused.kind == "unknown-recipient"
    assert (decided.decided_by, decided.note, decided.decided_at_us) == ("human-governor", "yes", 1_800_000_000_000_000)
    assert [report.agent for report in sent.recipients] == ["ops"]
    assert len(handed) == 1
    assert bench.exchange.topology.version == number
    assert stored(bench, 1).standing is Standing.SUPERSEDED
    assert stored(bench, number).standing is Standing.CURRENT
    assert "ops" in [report.agent for report in bench.send(to="product").recipients]


def test_sequences_begin_at_one_and_go_on(bench):
    """A new channel's at 1; those of a channel that ends and comes back are never used again."""
    changed(bench, propose(channels={"add": {"new": {"members": ["pm"]}}}))
    assert [bench.send(to="new").sequence for _ in range(3)] == [1, 2, 3]
    changed(bench, propose(channels={"remove": ["new"]}))
    assert bench.refused(send(to="new")).kind == "unknown-recipient"
    bench.restart()
    changed(bench, propose(channels={"add": {"new": {"members": ["pm", "qa"]}}}))
    assert bench.send(to="new").sequence == 4


def test_a_removed_agent_takes_nothing(bench):
    """What waits and what is out is dead as refused, by the version that did it; nothing of others is touched."""
    bench.send(to="product", task_id="a")
    bench.send(to="@qa", task_id="b")
    (held, _) = bench.poll("qa", 2)
    bench.send(to="@qa", task_id="c")
    assert bench.row(1).state.word == "leased"
    number = changed(bench, REMOVE_QA).version
    for message in (1, 2, 3):
        row, letter = bench.row(message), bench.letter(message)
        assert (row.state.word, row.reason) == ("dead", "refused")
        assert letter.last.detail == f"qa is no agent since version {number} of the topology"
    assert bench.states(1) == dict.fromkeys(AGENTS, "queued") | {"qa": "dead"}
    assert "qa" not in bench.exchange.depths()
    assert bench.ack(held).kind == "unauthenticated"
    assert bench.row(1).state.word == "dead"


def test_its_dead_letters_are_replayed_once_it_is_an_agent_again(bench):
    """Until then there is no queue for them."""
    bench.send(to="@qa")
    changed(bench, REMOVE_QA)
    assert bench.refused(Replay(1, "qa")).kind == "unknown-recipient"
    changed(bench, propose({"add": {"qa": {}}}))
    assert bench.poll("qa") == []
    assert bench.do(Replay(1, "qa")).status == "queued"
    (handed,) = bench.poll("qa")
    assert bench.ack(handed) == [handed.delivery_id]


def test_a_removed_agents_polls_end_empty(bench):
    """Those that wait are answered by the group that removes it, and only those."""
    bench.group(claim("qa", park=True, ticket=7), claim("pm", park=True, ticket=8), claim("qa", park=True, ticket=9))
    number = bench.do(REMOVE_QA).version
    bench.do(approve(number))
    assert bench.exchange.handed_over == [(7, "qa", []), (9, "qa", [])]
    bench.group(send(to="@pm"), Unpark("qa", 7))
    assert [(ticket, who) for ticket, who, _ in bench.exchange.handed_over] == [(8, "pm")]


@pytest.mark.parametrize(
    "command",
    [
        claim("qa"),
        claim("qa", park=True),
        Ack("qa", ("1.1.a",), {}),
        Nack("qa", "1.1.a", "fail", None),
        Extend("qa", ("1.1.a",), 1),
        send("qa", to="@pm"),
        send("qa", to="product"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_what_a_removed_agent_had_on_the_way_is_refused(bench, command):
    """Its sidecar was let in before the commit; the rest of the group goes on."""
    number = bench.do(REMOVE_QA).version
    bench.send(to="@qa")
    _, outcome, sent = bench.group(approve(number), command, send(to="@pm"))
    assert isinstance(outcome, Problem)
    assert outcome.kind == "unauthenticated"
    assert sent.sequence == 1


def test_giving_back_what_ended_with_its_agent_does_no_harm(bench):
    """The answer to its last poll could not be written."""
    bench.send(to="@qa")
    (handed,) = bench.poll("qa")
    changed(bench, REMOVE_QA)
    assert bench.do(GiveBack("qa", (handed.delivery_id,))) is None
    assert bench.row(1).state.word == "dead"


def test_who_leaves_a_channel_keeps_what_was_sent_before(bench):
    """It is delivered, whether it waited or was out; nothing new comes."""
    bench.send(to="product", task_id="a")
    (held,) = bench.poll("qa", 1)
    bench.send(to="product", task_id="b")
    changed(bench, propose(channels={"change": {"product": {"remove": ["qa"]}}}))
    assert "qa" not in bench.states(bench_message(bench.send(to="product")))
    assert bench.ack(held) == [held.delivery_id]
    (rest,) = bench.poll("qa")
    assert bench.ack(rest) == [rest.delivery_id]
    assert bench.refused(send("qa", to="product")).kind == "not-a-member"


def bench_message(sent):
    """The third message of a store that numbers from 1."""
    return sent.sequence


def test_a_duplicate_is_reported_as_it_stands_after_a_change(bench):
    """The recipients are those of the message, removed or not."""
    first = send(to="product")
    bench.do(first)
    changed(bench, REMOVE_QA)
    again = bench.do(first)
    assert again.duplicate
    assert {report.agent: report.status for report in again.recipients} == dict.fromkeys(AGENTS, "queued") | {
        "qa": "dead"
    }


def test_a_proposal_whose_base_is_gone_is_stale(bench):
    """And says what to do; the one that came into force stands."""
    first, second = bench.do(ADD_OPS).version, bench.do(REMOVE_QA).version
    bench.do(approve(second))
    problem = bench.refused(approve(first))
    assert (problem.kind, problem.extra["state"]) == ("proposal-closed", "stale")
    assert "proposed again" in problem.detail
    assert stored(bench, first).standing is Standing.STALE
    assert bench.exchange.topology.version == second
    assert bench.do(ADD_OPS).base == second


def test_a_denied_proposal_changes_nothing(bench):
    """It stays in the trail with who denied it and why, and cannot be approved any more."""
    number = bench.do(ADD_OPS).version
    denied = bench.do(deny(number, "too many"))
    assert (denied.standing, denied.note, denied.decided_by) == (Standing.DENIED, "too many", "human-governor")
    assert stored(bench, number) == denied
    assert bench.refused(approve(number)).extra["state"] == "denied"
    assert bench.exchange.topology.version == 1


def test_deciding_the_same_twice_is_harmless(bench):
    """As after a lost answer; the opposite is refused."""
    first, second = bench.do(ADD_OPS).version, bench.do(REMOVE_QA).version
    assert bench.do(deny(second)) == bench.do(deny(second))
    assert bench.do(approve(first)) == bench.do(approve(first))
    assert bench.refused(deny(first)).kind == "proposal-closed"
    assert bench.refused(approve(1)).kind == "proposal-closed"
    assert bench.refused(approve(9)).kind == "not-found"


def test_proposing_the_same_twice_is_one_proposal(bench):
    """As after a lost answer; another reason is another proposal."""
    assert bench.do(ADD_OPS) == bench.do(ADD_OPS)
    assert bench.do(propose({"remove": ["qa"]}, reason="other")).version == 3


def test_what_would_change_nothing_is_refused(bench):
    """A human is not asked about it."""
    assert bench.refused(propose()).field == "/change"
    assert stored(bench, 2) is None


def test_open_proposals_are_bounded(bench):
    """Decisions make room."""
    for number in range(PROPOSALS_OPEN_MAX):
        bench.do(propose({"add": {f"a{number}": {}}}))
    problem = bench.refused(ADD_OPS)
    assert (problem.kind, problem.retryable) == ("too-many-proposals", False)
    bench.do(deny(2))
    assert bench.do(ADD_OPS).standing is Standing.PROPOSED


def test_a_restart_knows_what_is_open_and_in_force(bench):
    """Proposals, versions, and numbers that are never used again."""
    first, second = bench.do(ADD_OPS).version, bench.do(REMOVE_QA).version
    bench.do(deny(second))
    bench.restart()
    assert bench.do(ADD_OPS).version == first
    assert changed(bench, ADD_OPS).version == first
    bench.restart()
    assert bench.do(TakeFile(membership())).state is FileState.BEHIND
    assert bench.do(propose({"remove": ["pm"]})).version == 4


def test_an_edited_file_is_a_new_version(bench):
    """Whoever it leaves out is removed by the same rule; open proposals are stale."""
    open_one = bench.do(ADD_OPS).version
    bench.send(to="@growth")
    bench.restart()
    taken = bench.do(TakeFile(membership(AGENTS[:-1])))
    assert (taken.state, taken.version.version, taken.version.base) == (FileState.EDITED, 3, 1)
    assert (taken.version.source, taken.version.in_file) == ("file", True)
    assert "agent growth leaves" in taken.version.changes
    assert bench.row(1, "growth").state.word == "dead"
    assert stored(bench, open_one).standing is Standing.STALE


def test_an_approval_that_is_not_in_the_file_stands(bench):
    """Until the file says it, however often the adapter starts; after that an old file is an edit."""
    number = changed(bench, ADD_OPS).version
    for _ in range(2):
        bench.restart()
        taken = bench.do(TakeFile(membership()))
        assert (taken.state, taken.version.version) == (FileState.BEHIND, number)
    assert bench.do(NoteWritten(number)).in_file
    assert bench.refused(NoteWritten(1)).kind == "proposal-closed"
    bench.restart()
    assert bench.do(TakeFile(stored(bench, number).membership)).state is FileState.SAME
    assert bench.do(TakeFile(membership())).state is FileState.EDITED


def test_a_file_that_was_written_without_a_word_is_noted(bench):
    """The command line may have died between writing and telling."""
    version = changed(bench, ADD_OPS)
    assert not version.in_file
    bench.restart()
    assert bench.do(TakeFile(version.membership)).version.in_file
    assert stored(bench, version.version).in_file


def test_a_store_from_before_there_were_versions_is_taken_over(make_bench):
    """Its first start names what it finds, and ends what waits for those who are none."""
    bench = make_bench()
    bench.send(to="product")
    bench.restart()
    taken = bench.do(TakeFile(membership(AGENTS[:-1])))
    assert (taken.version.version, taken.version.base, taken.version.source) == (1, 0, "file")
    assert bench.states(1) == dict.fromkeys(AGENTS, "queued") | {"growth": "dead"}
