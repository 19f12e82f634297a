"""`multiclaw backup` where the adapter is stopped, and what it refuses."""

import asyncio
import json

import pytest

from adapter.broker import Broker
from adapter.store.engine import Store
from shared.clock import Clock
from shared.config import load
from shared.database import verify_backup
from tests.support.factories import membership, policy, send
from tests.unit.cli.runner import run


@pytest.fixture
def deployment(monkeypatch, short_folder):
    """The configuration of a deployment of which nothing runs."""
    run(monkeypatch, "init", "--dir", short_folder, "--agents", "pm,qa")
    return short_folder / "multiclaw.toml"


@pytest.fixture
def filled(deployment):
    """One whose store holds two messages."""

    async def fill():
        store = Store(load(deployment).adapter_store, membership(), policy(), Clock())
        await store.open()
        broker = Broker(store, Clock())
        for _ in range(2):
            await broker.ask(send())
        await broker.close()
        await store.close()

    load(deployment).adapter_state.mkdir(parents=True, exist_ok=True)
    asyncio.run(fill())
    return deployment


def test_a_stopped_store_is_copied_and_listed(monkeypatch, filled):
    """The copy is verified, private, and in the list with what it holds."""
    made = json.loads(run(monkeypatch, "backup", "--json", "--config", filled).out)
    path = load(filled).backup_folder / made["file"].rpartition("/")[2]
    verify_backup(path)
    assert (made["last_message"], made["bytes"]) == (2, path.stat().st_size)
    listed = json.loads(run(monkeypatch, "backup", "list", "--json", "--config", filled).out)
    (one,) = listed["backups"]
    assert (one["file"], one["made_at"], one["last_message"]) == (str(path), made["made_at"], 2)
    assert (one["verified"], one["fault"]) == ("when it was made", None)
    assert run(monkeypatch, "backup", "list", "--verify", "--config", filled).out.endswith("verified now\n")


def test_a_backup_goes_where_it_is_asked_for(monkeypatch, filled, tmp_path):
    """Verified there, and never in the place of another file."""
    target = tmp_path / "mine.db"
    done = run(monkeypatch, "backup", "--to", target, "--config", filled)
    assert (done.status, done.out.startswith(f"{target}: ")) == (0, True)
    verify_backup(target)
    content = target.read_bytes()
    again = run(monkeypatch, "backup", "--to", target, "--config", filled)
    assert (again.status, "there is a file" in again.err) == (1, True)
    assert target.read_bytes() == content
    assert len(list(load(filled).backup_folder.iterdir())) == 1


def test_a_list_finds_what_has_gone_bad(monkeypatch, filled):
    """With --verify: it is named, and the exit status says so."""
    run(monkeypatch, "backup", "--config", filled)
    (path,) = load(filled).backup_folder.iterdir()
    with path.open("r+b") as file:
        file.seek(9_000)
        file.write(b"bad")
    found = run(monkeypatch, "backup", "list", "--verify", "--config", filled)
    assert (found.status, "damaged: " in found.out) == (1, True)
    assert run(monkeypatch, "backup", "list", "--config", filled).status == 0


def test_where_there_is_nothing_it_is_said(monkeypatch, deployment):
    """No store, and no backups."""
    refused = run(monkeypatch, "backup", "--config", deployment)
    assert (refused.status, "there is no store" in refused.err) == (1, True)
    assert "make one: multiclaw backup" in run(monkeypatch, "backup", "list", "--config", deployment).out


def test_a_folder_of_its_own_is_relative_to_the_file(monkeypatch, filled):
    """As every path of the file."""
    filled.write_text(filled.read_text().replace("[backups]\n", '[backups]\nfolder = "elsewhere"\n'))
    made = json.loads(run(monkeypatch, "backup", "--json", "--config", filled).out)
    assert made["file"].startswith(f"{filled.parent}/elsewhere/store-")


def test_an_unknown_setting_is_refused(monkeypatch, filled):
    """With the one that was meant."""
    filled.write_text(filled.read_text().replace("[backups]\n", "[backups]\nintervals_hours = 3\n"))
    refused = run(monkeypatch, "backup", "--config", filled)
    assert (refused.status, "interval_hours" in refused.err) == (78, True)
