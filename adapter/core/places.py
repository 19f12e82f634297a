"""Places: the number of each message in the store and in its channel, and the time of its receipt.

Numbers are contiguous from 1 in each channel, in commit order, and never used twice; time never goes back.
"""

import itertools
from typing import Any

from adapter.core.commands import NewMessage, Send, Snapshot, StoredSend
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from shared.strict_json import encode
from shared.times import iso


class Places:
    """The counters. What the present group has used is stored with it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._sequences = dict(snapshot.sequences)
        self._base = snapshot.losses.base
        self._message_ids = itertools.count(snapshot.last_message_id + 1)
        self.last_message_id = snapshot.last_message_id
        self._last_stamp_us = snapshot.last_accepted_at_us
        self._used: dict[str, int] = {}

    def clear(self) -> None:
        """Forget the last group."""
        self._used = {}

    def last(self, channel: str) -> int:
        """The newest sequence of a channel; before its first message 0, or what it begins behind."""
        return self._sequences.get(channel, self._base)

    def channels(self) -> tuple[str, ...]:
        """Every channel that ever had a place to give."""
        return tuple(self._sequences)

    def give(self, send: Send, envelope: dict[str, Any], store: StoreTransaction, now: Now) -> StoredSend:
        """Store a message at the next place of its channel."""
        self._last_stamp_us = stamp_us = max(self._last_stamp_us, now.wall_us)
        self.last_message_id = message_id = next(self._message_ids)
        sequence = self._sequences.get(send.channel, self._base) + 1
        self._sequences[send.channel] = self._used[send.channel] = sequence
        complete = {
            **envelope,
            "channel_sequence_id": sequence,
            "timestamp_iso8601": iso(stamp_us),
            "priority": "critical" if send.critical else "normal",
        }
        store.add_message(NewMessage(message_id, sequence, stamp_us, send, encode(complete)))
        return StoredSend(message_id, send.content_sha256, send.channel, sequence, stamp_us)

    def save(self, store: StoreTransaction) -> None:
        """Store what was used."""
        if self._used:
            store.save_sequences(self._used, self.last_message_id)
