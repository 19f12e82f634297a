"""Every cut of a recording: the power fails after each operation, and what the disk may hold then is opened again."""

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from shared.database.library import LIBRARY
from tests.crash.disk import Disk, Image
from tests.crash.recording import Record, Recording

Check = Callable[[Path, Sequence[dict[str, Any]]], Iterator[str]]
"""The faults of a folder, given what had been promised."""


@dataclass(slots=True)
class Sweep:
    """What a sweep came to. `faults` are in words, each with its cut and its mode."""

    cuts: int = 0
    images: int = 0
    faults: list[str] = field(default_factory=list)


def sweep(recording: Recording, check: Check, *, seed: int = 1, share: float = 1.0, faults_max: int = 20) -> Sweep:
    """Cut after every operation, or after each that changes names and a seeded `share` of the others; ends early after
    `faults_max` faults."""
    rng = random.Random(f"sweep {seed}")
    done, disk = Sweep(), Disk()
    promises: list[dict[str, Any]] = []
    seen: set[tuple[int, bytes]] = set()
    for number, step in enumerate(recording.steps):
        if not isinstance(step, Record):
            promises.append(step)
            continue
        disk.apply(step)
        if rng.random() >= share and not step.changes_names:
            continue
        done.cuts += 1
        for mode, image in disk.images(rng):
            name = len(promises), _digest(image)
            if name in seen:
                continue
            seen.add(name)
            done.images += 1
            done.faults += (f"cut {number}, {mode}: {fault}" for fault in _faults(image, promises, check))
            if len(done.faults) >= faults_max:
                return done
    return done


def _digest(image: Image) -> bytes:
    digest = sha256(repr((sorted(image.folders), sorted(image.links.items()))).encode())
    for path in sorted(image.files):
        content = image.files[path]
        digest.update(path.encode() + b"\0" + len(content).to_bytes(8, "big") + content)
    return digest.digest()


def _faults(image: Image, promises: Sequence[dict[str, Any]], check: Check) -> list[str]:
    folder = Path(tempfile.mkdtemp(prefix="mc-cut-", dir="/dev/shm"))
    try:
        image.lay_out(folder)
        return list(check(folder, promises))
    except LIBRARY.Error as error:
        return [f"it does not open: {error!r}"]
    finally:
        shutil.rmtree(folder)
