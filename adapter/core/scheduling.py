"""Scheduling: what waits for its time is sent when it comes, or cancelled before. Part of the exchange.

A scheduled send waits outside its channel, where it would block its line. It gets its sequence, its time of receipt
and its recipients when it is sent, and takes part in order from then on; that it leaves the table and enters the
channel is one transaction (ADR 18).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.appointment import AppointmentState, Turn
from adapter.core.books import Books, Decide
from adapter.core.commands import CancelScheduled, ScheduledSend, Send, Settled
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from adapter.core.timetable import Key, Timetable
from shared.limits import REASON_CHARS_MAX
from shared.problems import Problem
from shared.times import MICROSECONDS

RELEASES_MAX: Final = 50
"""Sends of one group: some milliseconds, which a command that shares the group waits longer. What is left of a minute
for which thousands were scheduled comes with the next ticks."""

Release = Callable[[Send, StoreTransaction, Now], None]


class Scheduling:
    """Decides on what waits for its time."""

    def __init__(self, books: Books, timetable: Timetable, release: Release) -> None:
        self._books = books
        self._timetable = timetable
        self._release = release

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return {CancelScheduled: self.cancel}

    def next_due_us(self) -> int | None:
        """See `Part`."""
        return self._timetable.next_due_us()

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """See `Part`."""
        for key in self._timetable.take_due(now.steady_us, RELEASES_MAX):
            scheduled = store.find_scheduled(*key)
            if scheduled is not None:
                self._send(key, scheduled, store, now)

    def cancel(self, cancel: CancelScheduled, store: StoreTransaction, now: Now) -> Settled:
        """It will not be sent; cancelling twice is as good as once. Raises `not-scheduled` or `not-found`."""
        known = store.find_scheduled(cancel.sender, cancel.idempotency_key)
        if known is None:
            raise self._nothing_to_cancel(cancel, store)
        if known.appointment.standing is not AppointmentState.CANCELLED:
            self._timetable.remove((cancel.sender, cancel.idempotency_key))
            without_content = replace(known.send, envelope={})
            store.save_scheduled(replace(known, appointment=known.appointment.after(Turn.CANCEL), send=without_content))
        return Settled(AppointmentState.CANCELLED)

    def _nothing_to_cancel(self, cancel: CancelScheduled, store: StoreTransaction) -> Problem:
        sent = store.find_send(cancel.sender, cancel.idempotency_key)
        if sent is None:
            return Problem("not-found", f"No scheduled message of {cancel.sender!r} has this key.")
        detail = f"It was sent already, as {sent.channel} {sent.sequence}; nothing was changed."
        return Problem("not-scheduled", detail, channel=sent.channel, channel_sequence_id=sent.sequence)

    def _send(self, key: Key, scheduled: ScheduledSend, store: StoreTransaction, now: Now) -> None:
        send, entry = scheduled.send, self._timetable.entry(key)
        if send.expires_at_us is not None:  # by steady time, as when it was accepted
            stepped_us = entry.offset_us - (now.steady_us - now.wall_us)
            send = replace(send, expires_at_us=send.expires_at_us + stepped_us)
        try:
            self._release(send, store, now)
        except Problem as problem:
            if problem.retryable:
                self._timetable.put_off(key, now.steady_us + int((problem.retry_after or 1.0) * MICROSECONDS))
            else:
                self._fail(key, scheduled, problem, store)
        else:
            self._timetable.remove(key)
            store.drop_scheduled(*key)

    def _fail(self, key: Key, scheduled: ScheduledSend, problem: Problem, store: StoreTransaction) -> None:
        """It stays where people can see it, until somebody cancels it."""
        self._timetable.fail(key)
        failed = scheduled.appointment.after(Turn.FAIL)
        detail = problem.detail[:REASON_CHARS_MAX]
        store.save_scheduled(replace(scheduled, appointment=failed, reason=problem.kind, detail=detail))
        self._books.changes.alarms.append(Alarm(AlarmKind.SCHEDULE, key[0], problem.kind))
