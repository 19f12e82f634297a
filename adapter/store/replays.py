"""Replay jobs as rows, and the reading units over them."""

import sqlite3

import orjson

from adapter.core.dead_letters import Filter
from adapter.core.replay_job import JobState, ReplayJob
from adapter.store.names import Names
from adapter.store.queries import SQL
from adapter.store.rows import Row


def replay_row(job: ReplayJob) -> Row:
    """The row of a job."""
    return (
        job.id,
        job.wanted.recipient,
        job.wanted.reason,
        job.wanted.before_us,
        job.rate,
        job.limit,
        job.created_at_us,
        job.matched,
        orjson.dumps(dict(job.lanes)).decode(),
        orjson.dumps(job.waiting).decode(),
        job.replayed,
        job.refused,
        job.state,
        job.ended_at_us,
    )


def read_replays(connection: sqlite3.Connection, _: Names) -> list[ReplayJob]:
    """All that are known, oldest first."""
    jobs = [_job(row) for row in connection.execute(SQL["replays"])]
    return sorted(jobs, key=lambda job: (job.created_at_us, job.id))


def read_replay(connection: sqlite3.Connection, _: Names, job_id: str) -> ReplayJob | None:
    """One of them."""
    row = connection.execute(SQL["replay_at"], (job_id,)).fetchone()
    return None if row is None else _job(row)


def _job(row: Row) -> ReplayJob:
    job_id, recipient, reason, cut_off_us, rate, limit, created_at_us, matched, lanes, waiting, *rest = row
    replayed, refused, state, ended_at_us = rest
    return ReplayJob(
        job_id,
        Filter(recipient, reason, cut_off_us),
        rate,
        limit,
        created_at_us,
        matched,
        orjson.loads(lanes),
        tuple(orjson.loads(waiting)),
        replayed,
        refused,
        JobState(state),
        ended_at_us,
    )
