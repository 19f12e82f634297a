"""Enrolling: changes of members are proposed, decided, and come into force in the transaction that approves them. Part
of the exchange.

Whoever leaves a channel keeps what was sent to it before. Whoever is no agent any more takes nothing: what waits for
it and what is in its hands is dead, and can be replayed once it is an agent again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.books import Books, Decide
from adapter.core.commands import DecideTopology, FileTaken, NoteWritten, ProposeTopology, Snapshot, TakeFile
from adapter.core.mailbox import Mailbox
from adapter.core.membership import NOBODY, FileState, Standing, Step, TopologyVersion, differences, file_state
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from adapter.core.reshaping import reshaped
from adapter.core.routing import Topology
from shared.names import ADAPTER
from shared.problems import Problem

PROPOSALS_OPEN_MAX: Final = 20
"""More than a human who looks once a day finds; only decisions make room, so that what is stored grows with them."""

_EDITED: Final = "the file says so"


class Enrolling:
    """Keeps the version in force and the open proposals in mind; all others are in the store."""

    def __init__(self, books: Books, snapshot: Snapshot) -> None:
        self._books = books
        self._applied = snapshot.applied
        self._open = {each.version: each for each in snapshot.topologies if each.standing is Standing.PROPOSED}
        self._last = snapshot.last_topology

    @property
    def last_version(self) -> int:
        """The newest number of all versions."""
        return self._last

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return {
            ProposeTopology: self.propose,
            DecideTopology: self.decide,
            TakeFile: self.take_file,
            NoteWritten: self.note_written,
        }

    def next_due_us(self) -> None:
        """See `Part`: humans have no deadline."""

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """See `Part`."""

    def propose(self, propose: ProposeTopology, store: StoreTransaction, now: Now) -> TopologyVersion:
        """A proposed version; the same again for the same proposal, as after a lost answer.

        Raises `invalid-field`, or `too-many-proposals` while that many wait for a human.
        """
        current = self._applied[-1]
        membership = reshaped(current.membership, propose.change)
        changes = differences(current.membership, membership)
        if not changes:
            raise Problem("invalid-field", "This would change nothing.", field="/change")
        who, why = propose.proposer, propose.reason
        for waiting in self._open.values():
            if (waiting.proposed_by, waiting.reason, waiting.membership) == (who, why, membership):
                return waiting
        if len(self._open) >= PROPOSALS_OPEN_MAX:
            raise Problem("too-many-proposals", f"{len(self._open)} proposals wait for a human; so must this one.")
        proposal = TopologyVersion(
            self._number(), current.version, membership, changes, "proposal", who, why, now.wall_us
        )
        self._open[proposal.version] = proposal
        store.save_topology(proposal)
        self._books.changes.alarms.append(Alarm(AlarmKind.TOPOLOGY, who, "proposed"))
        return proposal

    def decide(self, decide: DecideTopology, store: StoreTransaction, now: Now) -> TopologyVersion:
        """The version as it is now; deciding the same again is harmless. Raises `not-found` or `proposal-closed`."""
        step = Step.APPROVE if decide.approve else Step.DENY
        proposal = self._open.get(decide.version)
        if proposal is None:
            return self._decided_before(decide, store)
        decided = proposal.decided(step, decide.decider, now.wall_us, decide.note)
        del self._open[decided.version]
        if decide.approve:
            self._put_in_force(decided, store, now)
        else:
            store.save_topology(decided)
        return decided

    def take_file(self, take: TakeFile, store: StoreTransaction, now: Now) -> FileTaken:
        """At a start: an edited file is a new version, in force at once; an approval that is not in it stands."""
        state = file_state(take.membership, self._applied)
        store.enrol((ADAPTER, *self._books.topology.roles), self._books.topology.members)
        if state is FileState.EDITED:
            current = self._applied[-1]
            changes = differences(current.membership, take.membership)
            edited = TopologyVersion(
                self._number(), current.version, take.membership, changes, "file", "file", _EDITED, now.wall_us
            )
            self._put_in_force(replace(edited.moved(Step.APPROVE), in_file=True), store, now)
        elif state is FileState.SAME:
            self._note_written(store)
        return FileTaken(state, self._applied[-1])

    def note_written(self, written: NoteWritten, store: StoreTransaction, _: Now) -> TopologyVersion:
        """The version in force; the file has it. Raises `proposal-closed` for one that is in force no more."""
        current = self._applied[-1]
        if written.version != current.version:
            detail = f"Version {current.version} is in force by now. Write it: multiclaw topology apply."
            raise Problem("proposal-closed", detail)
        self._note_written(store)
        return self._applied[-1]

    def _note_written(self, store: StoreTransaction) -> None:
        current = self._applied[-1]
        if not current.in_file:
            current = replace(current, in_file=True)
            store.save_topology(current)
        self._applied = [current]

    def _number(self) -> int:
        self._last += 1
        return self._last

    def _decided_before(self, decide: DecideTopology, store: StoreTransaction) -> TopologyVersion:
        found = store.find_topology(decide.version)
        if found is None:
            raise Problem("not-found", f"There is no version {decide.version} of the topology.")
        if found.source == "proposal" and found.standing is (Standing.CURRENT if decide.approve else Standing.DENIED):
            return found
        current = self._applied[-1].version
        if found.standing is Standing.STALE:
            detail = f"It changes version {found.base}, and {current} is in force by now; it must be proposed again."
        else:
            detail = f"Version {found.version} is {found.standing}; nothing was changed."
        raise Problem("proposal-closed", detail, state=found.standing.value)

    def _put_in_force(self, version: TopologyVersion, store: StoreTransaction, now: Now) -> None:
        before = self._applied[-1].moved(Step.SUPERSEDE)
        if before.version != NOBODY.version:
            store.save_topology(before)
        for proposal in self._open.values():
            store.save_topology(proposal.moved(Step.OVERTAKE))
        self._open.clear()
        store.save_topology(version)
        self._applied = [version] if version.in_file else [*self._applied[:-1], before, version]
        self._seat(Topology.of(version.membership, version.version), store, now)

    def _seat(self, topology: Topology, store: StoreTransaction, now: Now) -> None:
        """Mailboxes for those who are agents now, and none for the others."""
        books = self._books
        store.enrol(topology.roles, topology.members)
        books.topology = topology
        for agent in topology.roles:
            books.mailboxes.setdefault(agent, Mailbox(agent))
        for agent in [agent for agent in books.mailboxes if agent not in topology.roles]:
            books.last_seen.pop(agent, None)
            ended = books.mailboxes.pop(agent).close()
            for delivery in ended:
                delivery.detail = f"{agent} is no agent since version {topology.version} of the topology"
            books.changes.touch(store, now, *ended)
