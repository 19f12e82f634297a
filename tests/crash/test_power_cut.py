"""A share of the power cuts of the crash laboratory; the whole of it is `python -m tests.crash`."""

import random
import shutil
from pathlib import Path

import pytest

from tests.crash import adapter, replacing, sidecar
from tests.crash.disk import Disk
from tests.crash.mutants import FAIL_SYNC_EVERY, MUTANTS, OF_REPLACEMENTS
from tests.crash.recording import Operation, Record, record
from tests.crash.sweep import Check, sweep

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="the disk between needs a C compiler: apt install gcc"),
    pytest.mark.timeout(300),
]

_SHARE = 0.05
_SHARE_OF_REPLACEMENTS = 0.01
"""All of their cuts that matter are changes of names, which are made in any case."""

_CHECKS: dict[str, Check] = {"adapter": adapter.faults, "sidecar": sidecar.faults, "replacing": replacing.faults}
_NOTICED_BY = {
    "synchronous-normal": "adapter",
    "synchronous-off": "sidecar",
    "adapter-answers-first": "adapter",
    "pop-before-ack": "adapter",
    "sidecar-answers-first": "sidecar",
    "outbox-emptied-first": "sidecar",
    "processed-forgotten": "sidecar",
    "numbers-reserved-later": "adapter",
    "replaced-names-unsynced": "replacing",
    "replacing-file-unsynced": "replacing",
    "failed-sync-believed": "adapter",
}


@pytest.mark.parametrize("scenario", _CHECKS)
def test_what_was_promised_is_there_when_the_power_comes_back(scenario: str) -> None:
    """After any operation on the disk, whatever of the unsynced writes arrived: the store opens, and every answered
    send, settlement and place is what was told (`nats-server#7564`), also where another file takes its place."""
    recording = record(scenario)
    share = _SHARE_OF_REPLACEMENTS if scenario == "replacing" else _SHARE
    done = sweep(recording, _CHECKS[scenario], share=share)
    assert done.faults == []
    assert recording.operations > 1_000
    assert done.images > 200


@pytest.mark.parametrize("scenario", _CHECKS)
def test_a_sync_that_failed_is_never_relied_on(scenario: str) -> None:
    """What it dropped is served from memory and is not on the disk: nothing that is answered afterwards may need it,
    when the power fails later (https://wiki.postgresql.org/wiki/Fsync_Errors)."""
    recording = record(scenario, fail_sync_every=37)
    assert recording.failed_syncs > 2
    share = _SHARE_OF_REPLACEMENTS if scenario == "replacing" else _SHARE / 2
    assert sweep(recording, _CHECKS[scenario], share=share).faults == []


@pytest.mark.parametrize("mutant", MUTANTS)
def test_broken_durability_is_noticed(mutant: str) -> None:
    """A sweep that finds nothing proves something only if it finds this."""
    scenario = _NOTICED_BY[mutant]
    recording = record(scenario, mutant, fail_sync_every=FAIL_SYNC_EVERY.get(mutant, 0))
    share = _SHARE_OF_REPLACEMENTS if mutant in OF_REPLACEMENTS else 1.0
    assert sweep(recording, _CHECKS[scenario], share=share, faults_max=1).faults


def _write(path: str, offset: int, data: bytes) -> Record:
    return Record(Operation.WRITE, path, offset, data)


def test_only_what_was_synced_is_sure() -> None:
    """Bytes by the sync of their file, a name by that of its folder."""
    disk = Disk()
    disk.apply(Record(Operation.CREATE, "a", 0, b""))
    disk.apply(_write("a", 0, b"safe"))
    disk.apply(Record(Operation.SYNC, "a", 0, b""))
    assert _found(disk, "dropped") == {}
    disk.apply(Record(Operation.SYNC, ".", 0, b""))
    disk.apply(_write("a", 4, b" lost"))
    assert _found(disk, "dropped") == {"a": b"safe"}
    assert _found(disk, "kept") == {"a": b"safe lost"}
    disk.apply(Record(Operation.UNLINK, "a", 0, b""))
    assert _found(disk, "dropped") == {"a": b"safe"}
    assert _found(disk, "kept") == {}


def _found(disk: Disk, mode: str) -> dict[str, bytes]:
    return dict(disk.images(random.Random(1)))[mode].files


def test_a_name_is_safe_by_the_sync_of_its_folder(tmp_path: Path) -> None:
    """A second name of a file has the file's bytes, whichever of both was synced; neither it nor what a folder holds
    is there without the folder's own name."""
    disk = Disk()
    for operation, path, data in (
        (Operation.CREATE, "a", b""), (Operation.WRITE, "a", b"bytes"), (Operation.MAKE_FOLDER, "f", b""),
        (Operation.LINK, "a", b"f/b"), (Operation.SYNC, "f/b", b""), (Operation.SYNC, "f", b""),
    ):  # fmt: skip
        disk.apply(Record(operation, path, 0, data))
    assert _found(disk, "dropped") == {}
    disk.apply(Record(Operation.SYNC, ".", 0, b""))
    disk.apply(Record(Operation.UNLINK, "a", 0, b""))
    disk.apply(_write("f/b", 0, b"B"))
    (_, dropped), (_, kept), *_ = disk.images(random.Random(1))
    assert kept.files == {"f/b": b"Bytes"}
    dropped.lay_out(tmp_path)
    assert (tmp_path / "a").samefile(tmp_path / "f" / "b")
    assert (tmp_path / "a").read_bytes() == b"bytes"


def test_what_a_failed_sync_dropped_never_arrives() -> None:
    """Later syncs write later writes only."""
    disk = Disk()
    disk.apply(Record(Operation.CREATE, "a", 0, b""))
    disk.apply(_write("a", 0, b"old"))
    for path in ("a", "."):
        disk.apply(Record(Operation.SYNC, path, 0, b""))
    disk.apply(_write("a", 0, b"new"))
    disk.apply(Record(Operation.SYNC_FAILED, "a", 0, b""))
    disk.apply(_write("a", 3, b" end"))
    disk.apply(Record(Operation.SYNC, "a", 0, b""))
    assert _found(disk, "dropped") == {"a": b"old end"}


def test_a_torn_write_arrives_by_sectors() -> None:
    """Each sector is the old or the new one, and some images hold both."""
    disk = Disk()
    disk.apply(Record(Operation.CREATE, "a", 0, b""))
    disk.apply(_write("a", 0, b"o" * 2_048))
    for path in ("a", "."):
        disk.apply(Record(Operation.SYNC, path, 0, b""))
    disk.apply(_write("a", 0, b"n" * 2_048))
    torn = _found(disk, "torn 512")["a"]
    sectors = {torn[start : start + 512] for start in range(0, 2_048, 512)}
    assert sectors == {b"o" * 512, b"n" * 512}
