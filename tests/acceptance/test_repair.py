"""A real adapter repairs its store by itself, also when it is killed while it does so; what is lost is told to all."""

import asyncio
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from shared.database import library_checksums
from tests.acceptance.test_cli import MULTICLAW
from tests.support.census import Census, take_census
from tests.support.deployment import Deployment, ServerProcess, health, until
from tests.support.described import DescribedClient
from tests.support.factories import noise
from tests.support.link_client import LinkClient
from tests.support.store_hand import as_sent, reading

PAGE = 8192
BATCHES, BATCH = 16, 50
TEXT = noise(0, 1_800)
STAGES = ("repairing/damaged.db", "repairing/new.db")
BY_THE_ADAPTER = ("@human-governor", "platform")

pytestmark = pytest.mark.skipif(library_checksums() != "on", reason=library_checksums())


async def fill(deployment: Deployment) -> None:
    """Some megabytes of messages, and the end of the adapter in peace."""
    adapter = await deployment.start_adapter()
    async with LinkClient(deployment.config.adapter_socket, deployment.keyring("pm")) as pm:
        for batch in range(BATCHES):
            to = "@qa" if batch % 2 else "product"
            texts = [{"n": [batch, n], "text": TEXT} for n in range(BATCH)]
            outcomes = await pm.submit(*(pm.envelope(to, payload=each) for each in texts))
            assert {outcome["code"] for outcome in outcomes} == {201}
    await adapter.stop()


def break_index(path: Path) -> bytes:
    """Overwrite a page of an index, which each start and each send needs; what the file holds then."""
    with reading(path) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'messages_by_sequence'").fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * PAGE)
        file.write(b"\x05" * PAGE)
    return path.read_bytes()


def of_agents(census: Census) -> Census:
    """Without what the adapter itself has said meanwhile."""
    return Census(
        {place: envelope for place, envelope in census.messages.items() if place[0] not in BY_THE_ADAPTER},
        {place: state for place, state in census.deliveries.items() if place[0] not in BY_THE_ADAPTER},
    )


async def test_killed_while_it_repairs(short_folder: Path) -> None:
    """At each stage: `/health` answers meanwhile and says how far it is, no byte of the damaged file changes, the next
    start begins anew, and in the end all is there; the Human Governor is told."""
    limits, rates = {"queue_max": 5_000, "store_probe_seconds": 0.1}, {"normal": (100_000, 100_000)}
    async with Deployment(short_folder, limits, rates=rates) as deployment:
        await fill(deployment)
        path = deployment.config.adapter_store
        before, damaged = take_census(path), break_index(path)
        reports: list[dict[str, Any]] = []
        for stage in STAGES:
            adapter = await deployment.start_adapter(wait=False)
            await until((path.parent / stage).exists, stage)
            began = time.monotonic()
            status, report = await health(deployment.config.adapter_socket)
            assert time.monotonic() - began < 1.0
            assert status in {0, 503}
            reports.append(report)
            adapter.kill9()
            assert path.read_bytes() == damaged
        assert any((report.get("repair") or {}).get("doing") for report in reports)
        adapter = await deployment.start_adapter()
        async with LinkClient(deployment.config.adapter_socket, deployment.keyring("pm")) as pm:
            (outcome,) = await pm.submit(pm.envelope("@qa"))
            assert outcome["code"] == 201
        await until(lambda: "alert.store/1" in told_to_the_governor(path), "the alarm")
        await adapter.stop()
        after = take_census(path)
        assert len(after.messages) > len(before.messages)
        del after.deliveries["@qa", outcome["answer"]["channel_sequence_id"], "qa"]
        assert list(of_agents(before).faults_of(of_agents(after))) == []
        (kept,) = (path.parent / "kept").iterdir()
        assert (kept / "store.db").read_bytes() == damaged
        assert not path.with_name("repairing").exists()


@pytest.mark.parametrize("point", ["adapter.store_watch:StoreWatch.ended", "adapter.broker:Broker._on_tick"])
async def test_killed_before_it_can_tell_of_its_repair(short_folder: Path, point: str) -> None:
    """Before the repaired store is opened, and once it is open: the next start tells the Human Governor, once."""
    async with Deployment(short_folder, {"alert_window_seconds": 0.1}) as deployment:
        adapter = await deployment.start_adapter()
        async with LinkClient(deployment.config.adapter_socket, deployment.keyring("pm")) as pm:
            await pm.send("@qa")
        await adapter.stop()
        path = deployment.config.adapter_store
        break_index(path)
        arguments = [point, "adapter.__main__:main", "--config", str(deployment.config_path)]
        doomed = ServerProcess(["tests.support.doomed", *arguments], deployment.folder / "doomed.log", {})
        assert await doomed.ended() == -signal.SIGKILL, doomed.log()
        assert not path.with_name("store.db-replacing").exists()
        for _ in range(2):
            adapter = await deployment.start_adapter()
            await until(lambda: "it was damaged and is repaired" in told_to_the_governor(path), "the alarm")
            await adapter.stop()
        assert told_to_the_governor(path).count('"alert.store/1"') == 1


async def test_what_was_killed_leaves_nothing(short_folder: Path) -> None:
    """Copies of the store, of a repair and of a restore that died beside it, are removed by the next start."""
    async with Deployment(short_folder) as deployment:
        path = deployment.config.adapter_store
        left = [path.parent / name for name in ("repairing/new.db", "store.db-repaired", "store.db-restoring")]
        left[0].parent.mkdir()
        for each in left:
            each.touch()
        await deployment.start_adapter()
        assert not [each for each in (*left, left[0].parent) if each.exists()]


def told_to_the_governor(path: Path) -> str:
    """All that stands in the inbox."""
    with reading(path) as db:
        rows = db.execute(
            "SELECT m.envelope FROM messages AS m JOIN channels AS c ON c.id = m.channel_id "
            "WHERE c.name = '@human-governor'"
        )
        return " ".join(as_sent(envelope).decode() for (envelope,) in rows)


def break_message(path: Path, text: str) -> None:
    """Overwrite the page with a message."""
    at = path.read_bytes().index(text.encode())
    with path.open("r+b") as file:
        file.seek(at // PAGE * PAGE)
        file.write(b"\x05" * PAGE)


async def test_what_a_repair_has_lost_reaches_its_receivers(short_folder: Path) -> None:
    """A human accepts it; every receiver is told which numbers are lost, through its sidecar and before what comes
    behind them; those that are there arrive, once, and the next one has the next number."""
    async with Deployment(short_folder, {"health_poll_seconds": 0.05}) as deployment:
        path, texts = deployment.config.adapter_store, [noise(n, 1_600) for n in range(12)]
        adapter = await deployment.start_adapter()
        link = deployment.config.adapter_socket
        async with LinkClient(link, deployment.keyring("pm")) as pm:
            for text in texts:
                await pm.send("@qa", payload={"text": text})
            await adapter.stop()
            break_message(path, texts[5])
            adapter = await deployment.start_adapter(wait=False)
            await until(lambda: "multiclaw repair --accept-loss" in adapter.log(), "it is refused")
            await adapter.stop()
            done = await asyncio.to_thread(
                subprocess.run,
                [str(MULTICLAW), "repair", "--accept-loss", "--json", "--config", str(deployment.config_path)],
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            lost = [{**each, "reason": "restored"} for each in json.loads(done.stdout)["lost"]]
            assert {each["channel"] for each in lost} == {"@qa"}
            await deployment.start_adapter()
            await deployment.start_sidecar("qa")
            last = await pm.send("@qa", payload={"text": "next"})
            assert last["answer"]["channel_sequence_id"] == len(texts) + 1
        got: list[int] = []
        gaps: list[dict[str, Any]] = []
        async with DescribedClient(deployment.config.sidecar_socket("qa")) as qa:
            await qa.describe()

            async def has_all() -> bool:
                answer = await qa.poll(wait=1)
                if answer.status == 200:
                    gaps.extend(answer.document["gaps"])
                    got.extend(each["envelope"]["channel_sequence_id"] for each in answer.document["messages"])
                return got[-1:] == [len(texts) + 1]

            await until(has_all, "the last one comes")
        missing = {n for each in lost for n in range(each["from"], each["to"] + 1)}
        assert 6 in missing
        assert got == [n for n in range(1, len(texts) + 2) if n not in missing]
        assert gaps == lost
