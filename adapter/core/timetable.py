"""The timetable: which sends wait for which time. It holds keys and times; what they say is in the store.

Times of the wall become steady ones when a send is accepted or the timetable is read from the store: a step of the
clock in between fires nothing and freezes nothing.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from adapter.core.appointment import Appointment, AppointmentState
from adapter.core.commands import Scheduled, ScheduledSend, Send
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from shared.limits import SCHEDULED_PER_SENDER_MAX
from shared.problems import Problem
from shared.times import iso

Key = tuple[str, bytes]
"""A sender, and its idempotency key."""

_SLACK: Final = 64
"""How many outdated entries the heap may hold beyond twice its live ones before it is made anew."""


@dataclass(slots=True)
class Entry:
    """One send. It is due at `due_us`, steady, or not at all once it has failed.

    `offset_us` is what lay between steady and wall time when it was entered: it turns its other times into steady ones.
    """

    number: int
    due_us: int | None
    offset_us: int


class Timetable:
    """What waits, what has failed, and in which order it is due."""

    def __init__(self, appointments: Iterable[Appointment], now: Now) -> None:
        self._entries: dict[Key, Entry] = {}
        self._due: list[tuple[int, int, Key]] = []
        self._counts: Counter[str] = Counter()
        self._last_number = 0
        for appointment in appointments:
            self._enter(appointment, now)

    def holds(self, sender: str, idempotency_key: bytes) -> bool:
        """Whether a send of this key waits or has failed."""
        return (sender, idempotency_key) in self._entries

    def entry(self, key: Key) -> Entry:
        """One that is held."""
        return self._entries[key]

    def again(self, send: Send, store: StoreTransaction) -> Scheduled | None:
        """The answer to a send whose key was scheduled before; None where it was not.

        Raises `idempotency-conflict` for other content, and `not-scheduled` where it has failed or was cancelled.
        """
        known = store.find_scheduled(send.sender, send.idempotency_key)
        if known is None:
            return None
        if known.send.content_sha256 != send.content_sha256:
            detail = f"This key was used for other content, {_state_of(known)}; use a new key."
            raise Problem("idempotency-conflict", detail, field="/idempotency_key")
        if known.appointment.standing is not AppointmentState.SCHEDULED:
            detail = f"It was {_state_of(known)}, and nothing was sent. To send it after all, use a new key."
            raise Problem("not-scheduled", detail, field="/idempotency_key")
        return Scheduled(duplicate=True, deliver_at_us=known.appointment.deliver_at_us)

    def check_room(self, sender: str) -> None:
        """Raise `schedule-full` if this sender has too many."""
        if self._counts[sender] >= SCHEDULED_PER_SENDER_MAX:
            detail = (
                f"{self._counts[sender]} messages of yours are scheduled or have failed, and that is the limit; cancel "
                "some, or wait until they are sent."
            )
            raise Problem("schedule-full", detail, field="/deliver_at")

    def add(self, send: Send, deliver_at_us: int, store: StoreTransaction, now: Now) -> Scheduled:
        """Enter a new send and store it whole."""
        number = self._last_number + 1
        appointment = Appointment(number, send.sender, send.idempotency_key, deliver_at_us)
        self._enter(appointment, now)
        store.save_scheduled(ScheduledSend(appointment, send, now.wall_us))
        return Scheduled(duplicate=False, deliver_at_us=deliver_at_us)

    def take_due(self, now_us: int, limit: int) -> list[Key]:
        """Up to `limit` that are due, in order; the caller removes, fails or puts off each of them."""
        keys: list[Key] = []
        while self._due and self._due[0][0] <= now_us and len(keys) < limit:
            due_us, _, key = heappop(self._due)
            entry = self._entries.get(key)
            if entry is not None and entry.due_us == due_us:
                keys.append(key)
        return keys

    def put_off(self, key: Key, due_us: int) -> None:
        """It is due later."""
        entry = self._entries[key]
        entry.due_us = due_us
        self._push(key, entry)

    def fail(self, key: Key) -> None:
        """It is not due any more; its key stays."""
        self._entries[key].due_us = None

    def remove(self, key: Key) -> None:
        """It was sent or cancelled."""
        del self._entries[key]
        self._counts[key[0]] -= 1

    def next_due_us(self) -> int | None:
        """When the first is due; one that is gone may make this too early."""
        return self._due[0][0] if self._due else None

    def _enter(self, appointment: Appointment, now: Now) -> None:
        key = appointment.sender, appointment.idempotency_key
        offset_us = now.steady_us - now.wall_us
        entry = Entry(appointment.number, None, offset_us)
        self._entries[key] = entry
        self._counts[appointment.sender] += 1
        self._last_number = max(self._last_number, appointment.number)
        if appointment.standing is AppointmentState.SCHEDULED:
            entry.due_us = appointment.deliver_at_us + offset_us
            self._push(key, entry)

    def _push(self, key: Key, entry: Entry) -> None:
        if entry.due_us is not None:
            heappush(self._due, (entry.due_us, entry.number, key))
        if len(self._due) > 2 * len(self._entries) + _SLACK:  # cancelled long before their time
            live = ((one.due_us, one.number, key) for key, one in self._entries.items())
            self._due = sorted((due_us, number, key) for due_us, number, key in live if due_us is not None)


def _state_of(known: ScheduledSend) -> str:
    standing = known.appointment.standing
    if standing is AppointmentState.SCHEDULED:
        return f"scheduled for {iso(known.appointment.deliver_at_us)}"
    return "cancelled" if standing is AppointmentState.CANCELLED else f"scheduled and has failed ({known.reason})"
