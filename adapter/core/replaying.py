"""Replay jobs: many dead letters tried again, at a rate, a few in each group. Part of the exchange.

A job goes recipient by recipient in commit order and remembers how far it has come, in the transaction that replays: so
a process that is killed goes on where it was, and nothing is replayed or counted twice.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from adapter.core.books import Books, Decide
from adapter.core.commands import CancelReplay, Replay, Settled, Snapshot, StartReplay
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from adapter.core.replay_job import GAP_US, JobEvent, JobState, Pace, ReplayJob
from shared.problems import Problem
from shared.replays import RATE_MAX
from shared.times import MICROSECONDS

RUNNING_MAX: Final = 4
"""Jobs at once. Each takes a share of every group; a person who steers more than these loses count of them."""

ENDED_MAX: Final = 100
"""Ended jobs that can still be looked at; the oldest beyond these are forgotten."""

BATCH_MAX: Final = int(RATE_MAX * GAP_US / MICROSECONDS)
"""Replays of one job in one group: 50, or about 2 ms, which a send that shares the group waits longer."""

_WAIT_US: Final = MICROSECONDS // 10
"""How soon a job looks again for room in full queues: to look costs nothing but an empty transaction."""

_SPARED: Final = 2
"""A job fills this part of a queue (a half) and leaves the rest to what is sent: were it to fill all of it, each new
message would evict the oldest one, which is what was just replayed."""

_RETRY_SECONDS: Final = 60.0

ReplayOne = Callable[[Replay, StoreTransaction, Now], Settled]


@dataclass(slots=True)
class _Run:
    """A job that runs, and when it goes on."""

    job: ReplayJob
    pace: Pace


class Replaying:
    """Runs the jobs."""

    def __init__(self, books: Books, snapshot: Snapshot, replay: ReplayOne, now: Now) -> None:
        self._books = books
        self._replay = replay
        self._jobs = {job.id: job for job in snapshot.replays}
        self._runs = {job.id: _run(job, now) for job in snapshot.replays if job.state is JobState.RUNNING}

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return {StartReplay: self.start, CancelReplay: self.cancel}

    def next_due_us(self) -> int | None:
        """See `Part`."""
        return min((run.pace.due_us for run in self._runs.values()), default=None)

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """See `Part`."""
        for run in list(self._runs.values()):
            if run.pace.due_us <= now.steady_us:
                self._advance(run, store, now)

    def start(self, start: StartReplay, store: StoreTransaction, now: Now) -> tuple[ReplayJob, bool]:
        """The job and whether it is new: the same one asked for again is the one that there is.

        Raises `idempotency-conflict` or `too-many-replays`.
        """
        known = self._jobs.get(start.id)
        if known is not None:
            return _same(known, start), False
        if len(self._runs) >= RUNNING_MAX:
            detail = f"{RUNNING_MAX} replays run already; wait for one of them, or cancel it."
            raise Problem("too-many-replays", detail, retry_after=_RETRY_SECONDS)
        wanted = replace(start.wanted, before_us=_cut_off_us(start, now.wall_us))
        counts = store.count_dead_letters(wanted)
        lanes = dict.fromkeys(counts, 0)
        job = ReplayJob(start.id, wanted, start.rate, start.limit, now.wall_us, sum(counts.values()), lanes)
        self._runs[job.id] = _run(job, now)
        return self._keep(_finished(job, now), store), True

    def cancel(self, cancel: CancelReplay, store: StoreTransaction, now: Now) -> ReplayJob:
        """The job, ended: what is replayed stays so, and the rest is left alone. One that had ended is as it was."""
        job = self._jobs.get(cancel.id)
        if job is None:
            raise Problem("not-found", f"There is no replay {cancel.id!r}.")
        return job if job.state is not JobState.RUNNING else self._keep(job.moved(JobEvent.CANCEL, now.wall_us), store)

    def _advance(self, run: _Run, store: StoreTransaction, now: Now) -> None:
        job, lanes = run.job, dict(run.job.lanes)
        most = BATCH_MAX if job.limit is None else min(BATCH_MAX, job.limit - job.replayed - job.refused)
        budget = run.pace.allows(now.steady_us, most)
        places = sorted(self._next(job, lanes, budget, store))[:budget]
        replayed = refused = 0
        for message_id, recipient in places:
            lanes[recipient] = message_id
            outcome = self._try(Replay(message_id, recipient), store, now)
            replayed += outcome is None
            refused += outcome is not None and outcome != "not-dead"  # somebody else has dealt with that one
        waiting = tuple(recipient for recipient in lanes if not self._room(recipient))
        run.pace.spent(len(places), now.steady_us)
        if lanes.keys() == set(waiting):
            run.pace.wait(now.steady_us + _WAIT_US)
        changed = replace(
            job, lanes=lanes, waiting=waiting, replayed=job.replayed + replayed, refused=job.refused + refused
        )
        changed = _finished(changed, now)
        if changed != job:
            self._keep(changed, store)

    def _next(
        self, job: ReplayJob, lanes: dict[str, int], budget: int, store: StoreTransaction
    ) -> Iterator[tuple[int, str]]:
        """The next ones for each recipient whose queue has room. Recipients for whom there is nothing more leave."""
        for recipient, passed in list(lanes.items()):
            most = min(budget, self._room(recipient))
            if most:
                found = store.open_dead_letters(replace(job.wanted, recipient=recipient), passed, most)
                yield from ((message_id, recipient) for message_id in found)
                if not found:
                    del lanes[recipient]

    def _try(self, replay: Replay, store: StoreTransaction, now: Now) -> str | None:
        """The kind of the problem that refuses it, or None."""
        try:
            self._replay(replay, store, now)
        except Problem as problem:
            return problem.kind
        return None

    def _room(self, recipient: str) -> int:
        """How many a job may put into that queue now. An agent that was removed has none: it is refused each."""
        mailbox = self._books.mailboxes.get(recipient)
        if mailbox is None:
            return BATCH_MAX
        return max(0, max(1, self._books.policy.queue.queue_max // _SPARED) - mailbox.depth)

    def _keep(self, job: ReplayJob, store: StoreTransaction) -> ReplayJob:
        """Remember a job as it is now, and forget those that ended long ago."""
        self._jobs[job.id] = job
        if job.state is JobState.RUNNING:
            self._runs[job.id].job = job
        else:
            del self._runs[job.id]
        ended = [known.id for known in self._jobs.values() if known.state is not JobState.RUNNING]
        surplus = ended[: max(0, len(ended) - ENDED_MAX)]
        for job_id in surplus:
            del self._jobs[job_id]
        store.save_replays([job])
        store.drop_replays(surplus)
        return job


def _run(job: ReplayJob, now: Now) -> _Run:
    return _Run(job, Pace(job.rate, now.steady_us))


def _finished(job: ReplayJob, now: Now) -> ReplayJob:
    """The job, done where nothing is left for it."""
    over = job.limit is not None and job.replayed + job.refused >= job.limit
    return job.moved(JobEvent.FINISH, now.wall_us) if over or not job.lanes else job


def _cut_off_us(start: StartReplay, now_us: int) -> int:
    """What dies from now on is never touched, whatever is asked: else a job could meet its own failures."""
    return now_us if start.wanted.before_us is None else min(start.wanted.before_us, now_us)


def _same(job: ReplayJob, start: StartReplay) -> ReplayJob:
    asked = replace(start.wanted, before_us=_cut_off_us(start, job.created_at_us)), start.rate, start.limit
    if asked != (job.wanted, job.rate, job.limit):
        raise Problem("idempotency-conflict", f"The replay {job.id} was asked for with other words; use a new id.")
    return job
