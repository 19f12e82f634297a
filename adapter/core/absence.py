"""Absence: an agent that does not poll while messages wait for it is reported, to the orchestrators and then to the
Human Governor. Part of the exchange.

It looks round a few times in each span that it reports, whatever is sent or polled meanwhile, so that neither costs
more for it. A poll ends an absence; what was last seen of each agent is kept over a restart.
"""

from collections.abc import Callable, Mapping
from typing import Final

from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.books import Books, Decide
from adapter.core.commands import Snapshot
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from shared.names import GOVERNOR
from shared.times import MICROSECONDS

_LOOKS: Final = 8
"""In each span: a report comes an eighth of it late at most."""

_SAVE_US: Final = 60 * MICROSECONDS
"""How much of what was seen a crash may forget."""

_NONE: Final[Mapping[type, Decide]] = {}


class Absence:
    """Watches every agent; the Governor is none. `polls` tells whether a poll of an agent is parked."""

    def __init__(self, books: Books, snapshot: Snapshot, polls: Callable[[str], bool], now: Now) -> None:
        self._books = books
        self._polls = polls
        self._since: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._saved = dict(snapshot.last_seen)
        self._look_at_us = now.steady_us
        self._save_at_us = now.steady_us + _SAVE_US
        books.last_seen.update(snapshot.last_seen)

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return _NONE

    def next_due_us(self) -> int | None:
        """See `Part`."""
        return self._look_at_us if self._books.policy.alert_window_us else None

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """See `Part`."""
        if not self._books.policy.alert_window_us or now.steady_us < self._look_at_us:
            return
        self._look_at_us = now.steady_us + min(self._books.policy.escalation.absence_us // _LOOKS, _SAVE_US)
        agents = self._books.topology.roles.keys() - {GOVERNOR}
        self._since = {agent: since_us for agent, since_us in self._since.items() if agent in agents}
        for agent in sorted(agents):
            self._look(agent, now.steady_us)
        if now.steady_us >= self._save_at_us:
            self._save(store, now)

    def _look(self, agent: str, now_us: int) -> None:
        waiting = self._books.mailbox(agent).waits
        if not waiting or self._polls(agent):
            self._since.pop(agent, None)
            self._told.pop(agent, None)
            return
        since_us, polled_us = self._since.setdefault(agent, now_us), self._books.polled_us.get(agent, 0)
        if polled_us > since_us:
            since_us = self._since[agent] = polled_us
            self._told.pop(agent, None)
        self._tell(agent, now_us - since_us)

    def _tell(self, agent: str, absent_us: int) -> None:
        limits, told_us = self._books.policy.escalation, self._told.get(agent, 0)
        for span_us in (limits.absence_governor_us, limits.absence_us):
            if absent_us >= span_us > told_us:
                self._told[agent] = span_us
                kind = self._kind(agent, is_long=span_us == limits.absence_governor_us)
                self._books.changes.alarms.append(Alarm(kind, agent, f"no poll for {span_us // MICROSECONDS} s"))
                return

    def _kind(self, agent: str, *, is_long: bool) -> AlarmKind:
        """Where the orchestrator itself is absent, or there is none, it is the Governor who can do something."""
        others = {role for name, role in self._books.topology.roles.items() if name != agent}
        return AlarmKind.LONG_ABSENCE if is_long or "orchestrator" not in others else AlarmKind.ABSENCE

    def _save(self, store: StoreTransaction, now: Now) -> None:
        self._save_at_us = now.steady_us + _SAVE_US
        seen = self._books.last_seen
        changed = {agent: seen_us for agent, seen_us in seen.items() if self._saved.get(agent) != seen_us}
        if changed:
            store.save_last_seen(changed)
            self._saved.update(changed)
