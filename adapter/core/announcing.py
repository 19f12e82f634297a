"""Announcing: alarms are counted, and what the adapter has to say about them is sent when it is due. Part of the
exchange."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from adapter.core.alarms import Alarm, AlarmKind, Audience
from adapter.core.alerts import alert, is_alert
from adapter.core.books import Books, Decide
from adapter.core.commands import RaiseAlarm, Send, Snapshot
from adapter.core.losses import Losses
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from adapter.core.routing import PLATFORM
from adapter.core.tallies import Tallies
from shared.names import ADAPTER, GOVERNOR, direct_channel
from shared.times import iso

_RANGES_MAX: Final = 1_000
"""Of lost ranges, which one alert names, of some sixty bytes each; there can be one for each page that was damaged."""

Announce = Callable[[Send, StoreTransaction, Now], None]


class Announcing:
    """Speaks on `platform`, to the orchestrators where there is no such channel, and to the Human Governor."""

    def __init__(self, books: Books, snapshot: Snapshot, announce: Announce, now: Now) -> None:
        self._books = books
        self._announce = announce
        policy = books.policy
        self._tallies = Tallies(policy.alert_window_us, policy.escalation, snapshot.tallies, now.steady_us)
        self._lost = _described(snapshot.losses)
        self._open_letters = snapshot.open_dead_letters
        self._told_of_letters = snapshot.open_dead_letters >= policy.escalation.dead_letters_max

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return {RaiseAlarm: self.raise_alarm}

    def next_due_us(self) -> int | None:
        """See `Part`."""
        return self._tallies.next_due_us()

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """See `Part`."""
        for telling in self._tallies.take_due(now.steady_us):
            state = self._state_of(telling.alarm)
            for channel in self._channels(telling.audience):
                message_id = self._books.places.last_message_id + 1
                self._announce(alert(telling, channel, state, message_id), store, now)

    def raise_alarm(self, raised: RaiseAlarm, _: StoreTransaction, __: Now) -> None:
        """It is counted with those of this group."""
        self._books.changes.alarms.append(raised.alarm)

    def count(self, store: StoreTransaction, now: Now) -> None:
        """Count what was raised in this group, and store the tallies with it."""
        changes = self._books.changes
        if self._books.policy.alert_window_us and (changes.deaths or changes.closures or changes.alarms):
            self._watch_open_letters()
            for alarm in (*self._deaths(store), *changes.alarms):
                self._tallies.count(alarm, now)
        changed = self._tallies.take_changed()
        if changed:
            store.save_tallies(changed)

    def _deaths(self, store: StoreTransaction) -> list[Alarm]:
        """An alarm for each death. Dead alerts raise none, or alerts about alerts would loop."""
        deaths = self._books.changes.deaths
        envelopes = store.envelopes(list({message_id for (message_id, _), _ in deaths})) if deaths else {}
        alerts = {message_id for message_id, envelope in envelopes.items() if is_alert(envelope)}
        return [
            Alarm(AlarmKind.DEAD_LETTER, recipient, reason)
            for (message_id, recipient), reason in deaths
            if message_id not in alerts
        ]

    def _watch_open_letters(self) -> None:
        """Raise an alarm when there are too many; the next once there were clearly fewer in between."""
        changes, limit = self._books.changes, self._books.policy.escalation.dead_letters_max
        self._open_letters += len(changes.deaths) - changes.closures
        if self._open_letters >= limit and not self._told_of_letters:
            self._told_of_letters = True
            changes.alarms.append(Alarm(AlarmKind.DEAD_LETTERS_MAX, ADAPTER, f"{limit} or more"))
        elif self._open_letters < limit * 9 // 10:
            self._told_of_letters = False

    def _channels(self, audience: Audience) -> list[str]:
        """Where they are told."""
        topology = self._books.topology
        if audience in {Audience.GOVERNOR, Audience.LEADERS}:
            orchestrators = [] if audience is Audience.GOVERNOR else self._channels(Audience.ORCHESTRATORS)
            return [*orchestrators, direct_channel(GOVERNOR)]
        if audience is Audience.PLATFORM and PLATFORM in topology.members:
            return [PLATFORM]
        return [direct_channel(agent) for agent, role in topology.roles.items() if role == "orchestrator"]

    def _state_of(self, alarm: Alarm) -> dict[str, Any]:
        """What waits for its agent, and when that polled last, where it is one that polls; or what is lost."""
        if alarm.kind in {AlarmKind.RESTORE, AlarmKind.REPAIR}:
            return self._lost
        agent = alarm.agent
        mailbox = self._books.mailboxes.get(agent)
        if mailbox is None:
            return {}
        seen_us = self._books.last_seen.get(agent)
        return {"unread": mailbox.depth, "last_seen": None if seen_us is None else iso(seen_us)}


def _described(losses: Losses) -> dict[str, Any]:
    """What the newest restore or repair has cost, for the payload that tells of it."""
    lost = [
        {"channel": channel, "from": each.first, "to": each.last}
        for channel, ranges in sorted(losses.since(losses.newest - 1).items())
        for each in ranges
    ]
    return {"as_of": iso(losses.as_of_us), "lost": lost[:_RANGES_MAX], "lost_ranges": len(lost)}
