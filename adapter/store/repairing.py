"""The repair of a damaged store: read what can be read, build a new store of it, and put that in the place of the old.

The ladder (promise 16): SQLite's own log first, which every opening reads; then what can be read of the damaged files
joined with the newest verified backup; and where anything would be lost, a human decides. Nothing of the damaged files
is changed: they are copied to be read, and kept when they are replaced.
"""

import contextlib
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from adapter.store.rebuilding import Known, Rebuilt, rebuild
from adapter.store.replacing import KEPT, note_path, replace_store
from adapter.store.reserve import read_reserved
from adapter.store.room import require_room
from adapter.store.salvage import Salvage, Step, copy_files
from adapter.store.witness import read_witness
from shared.database import Damage
from shared.database.mending import mend_pages
from shared.database.zero_pages import spoil_zero_pages
from shared.times import MICROSECONDS

_WHY: Final = "repair"
_WORK: Final = "repairing"
_ROOM_BYTES: Final = 64 * 1024 * 1024
_AGAIN_AFTER: Final = timedelta(days=1)
"""A store that is damaged again so soon stands on a disk or a memory that is not sound: repairing would go on for ever
and wear it down, and each time might be the one that fails."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A new store, verified and not in place yet. `backup` is the file that was joined in."""

    new: Path
    rebuilt: Rebuilt
    backup: Path | None
    mended_pages: list[int]
    wrong_pages: list[int]
    foreign: bool

    def document(self) -> dict[str, Any]:
        """For programs, and for the journal."""
        losses = self.rebuilt.losses
        return {
            "lossless": losses.nothing,
            "messages": self.rebuilt.messages,
            "from_backup": self.rebuilt.from_backup,
            "redelivered": self.rebuilt.redelivered,
            "mended_pages": self.mended_pages,
            "wrong_pages": self.wrong_pages,
            "backup": None if self.backup is None else self.backup.name,
            "lost": [{"channel": each.channel, "from": each.first, "to": each.last} for each in losses.ranges],
            "doubts": list(losses.others),
        }


def prepare_repair(
    store: Path, backup: Path | None, now_us: int, step: Step, channels: Collection[str] = ()
) -> Prepared:
    """Build a new store beside the damaged one, which nobody has open and whose lock the caller holds.

    `backup` is one that was verified. `channels` are those that there are: where it is not known how far they are, and
    that is accepted, they go on behind all numbers that may have been given. Raises `Damage` where nothing can be
    built, `NoRoomError`, what SQLite and the system raise that proves nothing, and what `step` raises. Nothing is left
    of one that failed.
    """
    discard_repair(store)
    if not store.exists() or store.stat().st_size == 0:
        raise Damage("it is gone or empty, so there is nothing to repair; put a backup in its place: multiclaw restore")
    _check_room(store)
    work = store.with_name(_WORK)
    work.mkdir(mode=0o700)
    try:
        copy = copy_files(store, work, step)
        mended = mend_pages(copy)
        spoil_zero_pages(copy)  # so that nothing is taken for right that is gone
        with contextlib.closing(Salvage(copy, step)) as salvage:
            known = Known(read_witness(store).last_message_id, read_reserved(store), channels)
            rebuilt = rebuild(salvage, backup, work / "new.db", known, now_us, step)
        return Prepared(work / "new.db", rebuilt, backup, mended, salvage.wrong_pages, salvage.foreign)
    except (TypeError, ValueError, KeyError) as error:  # a page that went astray, or a schema of garbage
        discard_repair(store)
        raise Damage(f"what stands in it makes no sense: {type(error).__name__}: {error}") from error
    except BaseException:
        discard_repair(store)
        raise


def finish_repair(store: Path, prepared: Prepared, now_us: int) -> Path:
    """Put what was prepared in the place of the store; gives the folder of the damaged files. Raises `OSError`."""
    new = _finished(store)
    prepared.new.replace(new)
    try:
        return replace_store(store, new, _WHY, now_us)
    finally:
        discard_repair(store)


def discard_repair(store: Path) -> None:
    """Remove what a repair has made that did not come to its end. Raises `OSError`."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(store.with_name(_WORK))
    if not note_path(store).exists():  # else it is on its way into the place of the store
        _finished(store).unlink(missing_ok=True)


def _finished(store: Path) -> Path:
    return store.with_name(f"{store.name}-repaired")


def repaired_lately(store: Path, now_us: int) -> Path | None:
    """The folder of a repair within the last day, or none. The clock may have stepped: a day ahead counts as well."""
    now = datetime.fromtimestamp(now_us / MICROSECONDS, UTC)
    for folder in sorted((store.parent / KEPT).glob(f"*-{_WHY}*"), reverse=True):
        with contextlib.suppress(ValueError):
            at = datetime.strptime(folder.name[:20], "%Y-%m-%dT%H-%M-%SZ").replace(tzinfo=UTC)
            if abs(now - at) < _AGAIN_AFTER:
                return folder
    return None


def _check_room(store: Path) -> None:
    """A copy and a new store, each as large as the store and its log."""
    files = (store.with_name(store.name + suffix) for suffix in ("", "-wal"))
    needed = 2 * sum(file.stat().st_size for file in files if file.exists()) + _ROOM_BYTES
    require_room(store.parent, needed, "a repair")
