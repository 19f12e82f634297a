"""Which numbers may have been given away, in a file that outlives the store: `NAME.db-reserved`.

An older store in the place of ours would give numbers of messages, and with them those of channels, a second time.
So before numbers are given, their end is made durable here, thousands ahead: one small file for each 8,192 messages,
and nothing for a single one. Whoever puts an older store in place, or one that lacks what was at its end, goes on
behind that end (`adapter/store/jump.py`).
"""

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from adapter.core.losses import end_of_numbers
from shared.durable_files import write_durably

_log = logging.getLogger(__name__)

MESSAGES_AHEAD: Final = 8_192
"""A jump costs so many numbers at most that nobody was given; there are 2^63."""

TOPOLOGIES_AHEAD: Final = 64


@dataclass(frozen=True, slots=True)
class Reserved:
    """The first message and the first version of the topology whose numbers nobody can have been given."""

    messages_end: int
    topologies_end: int


def reserved_path(store: Path) -> Path:
    """Where it is. It stays when the store is replaced."""
    return store.with_name(store.name + "-reserved")


def read_reserved(store: Path) -> Reserved | None:
    """What was made durable last; `None` where there is none or it is unreadable. Raises `OSError`."""
    try:
        reserved = Reserved(**json.loads(reserved_path(store).read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    known = all(type(end) is int and end > 0 for end in (reserved.messages_end, reserved.topologies_end))
    return reserved if known else None


def end_of_given(known: Reserved | None, state: int, seen: int, topology: int) -> Reserved:
    """The first numbers that nobody can have been given, when a state that ends at message `state` takes the place of
    the store: by what was made durable, or, where nothing was, by the newest message and topology that were `seen`.
    """
    return Reserved(
        end_of_numbers(state, known.messages_end if known else None, seen),
        max(known.topologies_end, topology + 1) if known else topology + 1 + TOPOLOGIES_AHEAD,
    )


class Reserve:
    """The end of one store's numbers, kept ahead of them by whoever commits."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._reserved = Reserved(0, 0)

    def opened(self, last_message_id: int, last_topology: int) -> None:
        """Read what the file says. Where it says nothing, what the store itself has counted must do."""
        self._reserved = read_reserved(self._store) or Reserved(0, 0)
        self.cover(last_message_id, last_topology)

    def cover(self, last_message_id: int, last_topology: int) -> None:
        """To be called before numbers up to these are committed. Raises `OSError`; they must not be given then."""
        reserved = self._reserved
        if last_message_id < reserved.messages_end and last_topology < reserved.topologies_end:
            return
        if last_message_id and not reserved.messages_end:
            _log.warning(
                "numbers-reserved: %s did not say; counted on from %d", reserved_path(self._store), last_message_id
            )
        ahead = Reserved(
            max(reserved.messages_end, last_message_id + 1 + MESSAGES_AHEAD),
            max(reserved.topologies_end, last_topology + 1 + TOPOLOGIES_AHEAD),
        )
        write_durably(reserved_path(self._store), json.dumps(asdict(ahead)).encode())
        self._reserved = ahead
