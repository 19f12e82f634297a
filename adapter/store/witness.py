"""What the adapter knew of its store when it last looked, in a file beside it: `NAME.db-witness`.

An empty or older store that was put in the place of ours is a perfect database. What tells that messages are missing
is that we have seen more of them. The file is written after what it tells of was committed and synced, so it is never
ahead of the store; after a crash it is a minute behind at most, and the log's mark (`shared/database/log_mark.py`)
covers that minute. It also keeps how far the scan of the pages has come.
"""

import contextlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from adapter.core.page_scan import ScanPosition
from shared.database import Damage
from shared.durable_files import write_durably


@dataclass(frozen=True, slots=True)
class Witness:
    """The newest message that was seen in the store, and the scan of its pages."""

    last_message_id: int = 0
    scan: ScanPosition = field(default_factory=ScanPosition)


def witness_path(store: Path) -> Path:
    """Where it is. Who puts an older store in place on purpose removes it."""
    return store.with_name(store.name + "-witness")


def read_witness(store: Path) -> Witness:
    """What was noted last; an absent or unreadable file proves nothing."""
    try:
        document = json.loads(witness_path(store).read_bytes())
        return Witness(int(document["last_message_id"]), ScanPosition(**document["scan"]))
    except (OSError, ValueError, TypeError, KeyError):
        return Witness()


def write_witness(store: Path, witness: Witness) -> None:
    """Note it, durable. A disk that takes no writes is told of by the store itself."""
    with contextlib.suppress(OSError):
        write_durably(witness_path(store), json.dumps(asdict(witness)).encode())


def check_present(store: Path, witness: Witness) -> None:
    """Before a store is opened, and made where there is none: raises `Damage` where one must have been."""
    if witness.last_message_id and (not store.exists() or store.stat().st_size == 0):
        raise Damage(f"it is gone or empty, and {_seen(store, witness)}")


def check_complete(store: Path, witness: Witness, last_message_id: int) -> None:
    """Raises `Damage` for a store that has seen fewer messages than we have seen in it."""
    if last_message_id < witness.last_message_id:
        raise Damage(f"its newest message is number {last_message_id}, and {_seen(store, witness)}")


def _seen(store: Path, witness: Witness) -> str:
    mend = (
        "put the right files back; where an older state is meant: multiclaw restore FILE, which gives no number twice, "
        f"as removing {witness_path(store)} would"
    )
    return f"number {witness.last_message_id} was seen in it: it is an older copy, or another store; {mend}"
