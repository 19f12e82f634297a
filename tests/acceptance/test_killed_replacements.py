"""`multiclaw restore` and `multiclaw repair`, killed before each change that they make to the file system: afterwards
the old store stands there or the new one, whole, and the verbs that look at it say so."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapter.store.backups import back_up_stopped
from adapter.store.engine import Store
from adapter.store.full_check import check_everything
from adapter.store.replacing import note_path
from multiclaw.cli import build
from shared.clock import Clock
from shared.database import library_checksums
from tests.acceptance.test_repair import break_index
from tests.integration.adapter.test_repair_verb import fill
from tests.support.deployment import Deployment
from tests.support.factories import membership, policy

FEW, MANY = 8, 12
VERBS = {"restore": ("--newest", "--yes"), "repair": ()}

pytestmark = [
    pytest.mark.skipif(library_checksums() != "on", reason=library_checksums()),
    pytest.mark.timeout(300),
]


async def stored(path: Path) -> int:
    """How many messages a start finds."""
    store = Store(path, membership(), policy(), Clock())
    await store.open()
    with_jumps = await store.read(lambda db, _: db.execute("SELECT count(*) FROM messages").fetchone()[0])
    await store.close()
    return int(with_jumps)


def said(verb: str, config: Path) -> tuple[int, str]:
    """Status and words of a verb that looks."""
    ended = CliRunner().invoke(build(verb), [verb, "--config", str(config)])
    return ended.exit_code, ended.stdout


def killed(point: int | str, verb: str, deployment: Deployment) -> int:
    """How the verb ended, in a process of its own."""
    command = [sys.executable, "-m", "tests.support.doomed", str(point), "multiclaw.cli:main", verb, *VERBS[verb]]
    done = subprocess.run(  # noqa: S603 - our own module
        [*command, "--config", str(deployment.config_path)], capture_output=True, timeout=60, check=False,
        env={**os.environ, "DOOMED_FOLDER": str(deployment.config.paths.state)},
    )  # fmt: skip
    return done.returncode


@pytest.mark.parametrize("verb", VERBS)
async def test_killed_before_each_change(short_folder: Path, verb: str) -> None:
    """A store that was to be restored is the one of before or the backup's; one that was to be repaired is as damaged
    as it was, byte by byte, or repaired. The next attempt comes to its end, and nothing of the first is left."""
    async with Deployment(short_folder) as deployment:
        path, state = deployment.config.adapter_store, deployment.config.adapter_state
        await fill(path, FEW)
        path.with_name("killed.db").unlink()
        await asyncio.to_thread(
            back_up_stopped, path, deployment.config.backup_folder, Clock().wall_us(), lambda *_: None
        )
        await fill(path, MANY - FEW)
        for left in path.parent.glob("killed.db*"):
            left.unlink()
        harmed = break_index(path) if verb == "repair" else None
        pristine = short_folder / "pristine"
        shutil.copytree(state, pristine)
        outcomes, point = [], 0
        while (status := await asyncio.to_thread(killed, point, verb, deployment)) != 0:
            assert status == -signal.SIGKILL, point
            doctor, _ = await asyncio.to_thread(said, "doctor", deployment.config_path)
            checked, words = await asyncio.to_thread(said, "check", deployment.config_path)
            assert doctor == 0
            if note_path(path).exists():
                assert (checked, "start the adapter, which finishes it" in words) == (1, True)
            elif path.read_bytes() == harmed:
                assert (checked, "damaged: " in words) == (1, True)
            else:
                assert (checked, "whole" in words) == (0, True)
            if path.read_bytes() != harmed or note_path(path).exists():
                outcomes.append(await stored(path))
                assert (await asyncio.to_thread(check_everything, path, lambda *_: None)).faults == []
            else:
                outcomes.append(0)
            assert await asyncio.to_thread(killed, "os:abort", verb, deployment) == 0
            names = {each.name for each in state.iterdir()}
            assert not names & {"repairing", "store.db-restoring", "store.db-repaired", note_path(path).name}, point
            shutil.rmtree(state)
            shutil.copytree(pristine, state)
            point += 1
        assert point > 10
        old, new = (0, MANY) if verb == "repair" else (MANY, FEW)
        assert outcomes == sorted(outcomes, key=[old, new].index)
        assert {*outcomes} == {old, new}
