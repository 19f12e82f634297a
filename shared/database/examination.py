"""What is wrong with a store that does not open, in words for whoever mends it."""

from pathlib import Path
from typing import Final

from shared.database.checksums import damaged_pages
from shared.database.damage import is_certain

_BLOCK_BYTES: Final = 1024 * 1024


def describe_damage(path: Path, error: Exception) -> str:
    """What `error` proves of the store at `path`, which must be closed; names the pages that are wrong, if any are."""
    try:
        pages = ", ".join(map(str, damaged_pages(path)))
    except OSError:
        pages = ""
    where = f"; wrong pages: {pages}" if pages else ""
    return f"{path}: {error}{where}; its files are left as they are"


def doubt(path: Path, error: Exception) -> str | None:
    """Why an error that looks like damage of the store at `path`, which must be closed, proves nothing: the disk does
    not give its files. `None` where it is proof.
    """
    if is_certain(error):
        return None
    try:
        for file in (path, path.with_name(path.name + "-wal")):
            _read_whole(file)
    except OSError as trouble:
        return f"the disk does not give what is asked for: {trouble}"
    return None


def _read_whole(path: Path) -> None:
    if path.exists():
        with path.open("rb", buffering=0) as file:
            while file.read(_BLOCK_BYTES):
                pass
