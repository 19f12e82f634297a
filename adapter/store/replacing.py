"""Another file in the place of the store: a crash at any moment leaves the whole old one or the whole new one.

1. `NAME.db-replacing`, a durable note of what is to be done, is put beside the store.
2. Every file of the store gets a second name (a hard link) in a folder of its own, `kept/TIME-WHY/`, which is synced.
3. The old names go, and the new file is renamed to the store's.
4. The note goes.

A start that finds the note (`finish_replacement`) does what is left of it before anything is opened; or, where the new
file is not there, brings the old names back. Files are only renamed and linked, so it takes no time and no space.

What tells which numbers were given away is no file of the store: it stays, since it is there to outlive the store.
"""

import contextlib
import json
import os
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from adapter.store.ownership import give_to_owner_of
from shared.config import ConfigurationFault
from shared.durable_files import sync_file, sync_folder, write_durably
from shared.times import MICROSECONDS, iso

KEPT: Final = "kept"
"""The folder beside the store for all that was replaced. Nothing in it is ever opened or removed by a process."""

_SUFFIXES: Final = ("", "-wal", "-shm", "-journal", "-mark", "-witness")
"""The files of a store, its own first. SQLite would take a log or a journal that is left for the new file's own."""

_WHY: Final = re.compile(r"[a-z][a-z-]{0,30}")


@dataclass(frozen=True, slots=True)
class _Replacement:
    """Names without folders, except that `kept` is one below the store's; `files` are those that there were."""

    new: str
    kept: str
    files: list[str]
    why: str
    at: str


def note_path(store: Path) -> Path:
    """Where a replacement that is under way is noted."""
    return store.with_name(store.name + "-replacing")


def replace_store(store: Path, new: Path, why: str, now_us: int) -> Path:
    """Put `new` in the place of the store, and give the folder in which the old files are kept.

    For whoever holds the store's lock, with no connection open. `new` is complete, verified, in the store's folder, and
    is a file by itself, with no log; `why` is a word for the folder's name. What root does so belongs to whoever the
    store's folder belongs to. Raises `OSError`: then all is as it was, or, where nothing but the last sync failed, the
    new file is in place.
    """
    if new.parent != store.parent or not _WHY.fullmatch(why):
        raise ValueError(f"{new} is not beside {store}, or {why!r} is no word for a folder")
    finish_replacement(store)
    give_to_owner_of(store.parent, new)
    sync_file(new)
    present = [name for name in (store.name + suffix for suffix in _SUFFIXES) if store.with_name(name).exists()]
    step = _Replacement(new.name, _free_name(store.parent, why, now_us), present, why, iso(now_us))
    try:
        write_durably(note_path(store), json.dumps(asdict(step)).encode())
        give_to_owner_of(store.parent, note_path(store))
        _carry_out(store, step)
    except OSError:
        if not _is_done(store, step):
            with contextlib.suppress(OSError):  # what is left of it then, the next start finishes
                _undo(store, step)
        raise
    return store.parent / step.kept


def finish_replacement(store: Path) -> Path | None:
    """Finish what a crash has interrupted, or undo it where the new file is not there; before a store is opened.

    Gives the folder of the old files where the new one is in place now, and `None` where there was nothing to do or it
    was undone. Raises `OSError`, and `ConfigurationFault` for a note that nobody of ours has written.
    """
    step = _read_note(store)
    if step is None:
        return None
    if store.with_name(step.new).exists():
        _carry_out(store, step)
    elif _is_done(store, step):
        _forget(store)
    else:
        _undo(store, step)
        return None
    return store.parent / step.kept


def _carry_out(store: Path, step: _Replacement) -> None:
    kept = store.parent / step.kept
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    give_to_owner_of(store.parent, kept.parent, kept)
    for name in step.files:
        with contextlib.suppress(FileExistsError, FileNotFoundError):  # done before the crash
            os.link(store.with_name(name), kept / name)
    for folder in (kept, kept.parent, store.parent):
        sync_folder(folder)
    for name in step.files:
        if name != store.name:  # its name is never without a file: the new one takes it over
            store.with_name(name).unlink(missing_ok=True)
    sync_folder(store.parent)  # else a power cut may bring an old log back beside the new file
    store.with_name(step.new).replace(store)
    _forget(store)


def _is_done(store: Path, step: _Replacement) -> bool:
    """Whether the new file stands in the place of the store; asked where it is not under its own name any more."""
    if store.with_name(step.new).exists() or not store.exists():
        return False
    old = store.parent / step.kept / store.name
    return store.name not in step.files or (old.exists() and not old.samefile(store))


def _undo(store: Path, step: _Replacement) -> None:
    kept = store.parent / step.kept
    for name in step.files:
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.link(kept / name, store.with_name(name))
    sync_folder(store.parent)
    for name in step.files:
        (kept / name).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        kept.rmdir()
    _forget(store)


def _forget(store: Path) -> None:
    sync_folder(store.parent)
    note_path(store).unlink(missing_ok=True)
    sync_folder(store.parent)


def _free_name(folder: Path, why: str, now_us: int) -> str:
    moment = datetime.fromtimestamp(now_us // MICROSECONDS, UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    name, number = f"{KEPT}/{moment}-{why}", 1
    while (folder / name).exists():
        number += 1
        name = f"{KEPT}/{moment}-{why}-{number}"
    return name


def _read_note(store: Path) -> _Replacement | None:
    try:
        step = _Replacement(**json.loads(note_path(store).read_bytes()))
        folder, _, dated = step.kept.partition("/")
        if folder != KEPT or not all(name and Path(name).name == name for name in (step.new, dated, *step.files)):
            raise ValueError(step)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigurationFault(
            f"{note_path(store)} should tell how the store is being replaced and cannot be read; look at the folder, "
            f"see that {store.name} is the store you want, and remove the note"
        ) from error
    return step
