"""Whose files they are that root makes beside a store: the adapter, which has a user of its own, is to use them."""

import os
from pathlib import Path


def give_to_owner_of(folder: Path, *paths: Path) -> None:
    """Give what root has made to whoever the folder belongs to. Raises `OSError`."""
    if os.geteuid() == 0:
        owner = folder.stat()
        for path in paths:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
