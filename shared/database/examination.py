"""What is wrong with a store that does not open, in words for whoever mends it."""

from pathlib import Path

from shared.database.checksums import damaged_pages


def describe_damage(path: Path, error: Exception) -> str:
    """What `error` proves of the store at `path`, which must be closed; names the pages that are wrong, if any are."""
    try:
        pages = ", ".join(map(str, damaged_pages(path)))
    except OSError:
        pages = ""
    where = f"; wrong pages: {pages}" if pages else ""
    return f"{path}: {error}{where}; its files are left as they are"
