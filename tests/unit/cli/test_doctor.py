"""`doctor` on a host where nothing runs: what it sees, and what it ends with."""

import asyncio
import contextlib
import json
import os
import shutil
import sqlite3
from types import SimpleNamespace

import pytest

from adapter.store.engine import Store
from adapter.store.replacing import note_path
from multiclaw.cli import findings
from shared.clock import Clock
from shared.database import SQLITE_VERSION, Verdict, connect_to_change, stamp_copy
from tests.support.factories import membership, policy
from tests.unit.cli.runner import run


@pytest.fixture
def deployment(monkeypatch, short_folder):
    """The configuration of a deployment of which nothing runs."""
    run(monkeypatch, "init", "--dir", short_folder, "--agents", "pm,qa")
    return short_folder / "multiclaw.toml"


@pytest.fixture
def examined(monkeypatch, deployment):
    """Asks the doctor and gives the exit status, and the findings by subject that are not well."""

    def ask():
        result = run(monkeypatch, "doctor", "--config", deployment, "--json")
        document = json.loads(result.out)
        assert document["status"] == result.status
        ill = [found for found in document["findings"] if found["level"] != "ok"]
        return result.status, {found["subject"]: (found["level"], found["detail"]) for found in ill}

    return ask


def test_a_fresh_deployment_is_well(monkeypatch, deployment, examined):
    """Nothing to complain of: status 0, the version and its verdict in words, every store named."""
    assert examined() == (0, {})
    words = run(monkeypatch, "doctor", "--config", deployment).out
    assert f"{SQLITE_VERSION} is safe" in words
    assert "sidecar-qa/sidecar.db is not there yet" in words
    assert words.endswith("0 faults, 0 warnings\n")


def test_an_unsafe_library_is_a_warning(monkeypatch, examined):
    """The adapter keeps to one connection on it, so the deployment works, and the reason is told."""
    monkeypatch.setattr(findings, "SQLITE_VERDICT", Verdict("unsafe", "for this test"))
    assert examined() == (0, {"sqlite": ("warning", f"{SQLITE_VERSION} is unsafe: for this test")})


def test_a_store_that_cannot_shrink_is_a_warning(deployment, examined):
    """It works; how to mend it is told, and the words are right."""
    path = deployment.parent / "state" / "adapter" / "store.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (x)")
        status, ill = examined()
        assert (status, ill["store"][0]) == (0, "warning")
        command = ill["store"][1].partition("'")[2].rstrip("'")
        connection.executescript(command)
    assert examined() == (0, {})


def test_a_backup_in_the_place_of_the_store_is_a_fault(deployment, examined):
    """It looks like a store; it is told what it is and how it is put in place. So is a replacement that was cut."""
    path = deployment.parent / "state" / "adapter" / "store.db"
    made = path.with_name("made.db")
    asyncio.run(make_store(made))
    shutil.copy(made, path)
    assert examined() == (0, {})
    with contextlib.closing(connect_to_change(path)) as copy:
        stamp_copy(copy)
    status, ill = examined()
    assert (status, ill["store"][0]) == (1, "fault")
    assert "is a backup that was put in the place of the store" in ill["store"][1]
    assert "multiclaw restore FILE" in ill["store"][1]
    shutil.copy(made, path)
    note_path(path).touch()
    status, ill = examined()
    assert (status, ill["store"][0]) == (0, "warning")


async def make_store(path):
    """An empty store of the adapter."""
    store = Store(path, membership(), policy(), Clock())
    await store.open()
    await store.close()


def test_what_a_process_would_refuse_is_of_the_configuration(deployment, examined):
    """An open key ends as the process itself would: with 78, and the command that closes it."""
    key = deployment.parent / "keys" / "qa.key"
    key.chmod(0o644)
    status, ill = examined()
    assert (status, list(ill)) == (78, ["keys"])
    assert f"chmod 600 {key}" in ill["keys"][1]


def test_a_broken_contract_and_a_long_path_are_of_the_configuration(monkeypatch, deployment, examined):
    """Both are named, in one run."""
    (deployment.parent / "contracts" / "bad.json").write_text("{")
    monkeypatch.setenv("RUNTIME_DIRECTORY", "long" * 30)
    status, ill = examined()
    assert (status, set(ill)) == (78, {"contracts", "sockets"})


def test_a_missing_configuration_does_not_hide_the_library(monkeypatch, short_folder):
    """SQLite is judged anyway, and the fault names the command that makes a configuration."""
    result = run(monkeypatch, "doctor", "--config", short_folder / "none.toml", "--json")
    sqlite, *_, configuration = json.loads(result.out)["findings"]
    assert (result.status, sqlite["subject"]) == (78, "sqlite")
    assert "multiclaw init" in configuration["detail"]


def test_host_faults_end_with_one(monkeypatch, deployment, examined):
    """An open token, a full disk and a file that is no database: each told, and status 1."""
    (deployment.parent / "state" / "sidecar-pm" / "token").chmod(0o640)
    store = deployment.parent / "state" / "adapter" / "store.db"
    store.parent.mkdir(parents=True, exist_ok=True)
    store.write_bytes(b"SQLite format 3?" + bytes(200))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 10**12 - 10**6, 10**6))
    status, ill = examined()
    assert (status, set(ill)) == (1, {"tokens", "disk", "store"})
    assert ill["store"] == ("fault", f"{store} is no SQLite database")


def test_small_blocks_are_a_warning(monkeypatch, deployment, examined):
    """Of the file system of the state: a full one would kill the processes."""
    free = {"f_frsize": 1024, "f_blocks": 2**40, "f_bfree": 2**40, "f_bavail": 2**40}
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bsize=1024, **free))
    status, ill = examined()
    assert status == 0
    level, detail = ill["disk"]
    assert (level, "blocks of 1024 bytes" in detail) == ("warning", True)
