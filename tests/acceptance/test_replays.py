"""Replay jobs and resent dead letters as a person at a shell and an orchestrator in Python meet them: real processes
only, one of them killed in the middle."""

import asyncio
import json
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiclaw import Agent, Refused, SyncAgent
from tests.support.deployment import QUICK, Deployment, until
from tests.support.shell import MULTICLAW, Shell, texts, wait_until

AGENTS = "orchestrator,pm,qa"


@pytest.fixture(scope="module")
def running() -> Iterator[Shell]:
    """A deployment that runs; each test leaves no dead letter open, and no message queued."""
    with tempfile.TemporaryDirectory(prefix="mc-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULTICLAW_LIMITS__ALERT_WINDOW_SECONDS", "600")
        shell = Shell(Path(folder), AGENTS)
        with shell.up():
            yield shell


def bury(shell: Shell, count: int) -> list[int]:
    """So many messages from pm to qa, which it refuses; their sequences."""

    async def act() -> list[int]:
        async with Agent("pm", config=shell.config) as pm, Agent("qa", config=shell.config) as qa:
            notes = [{"to": "@qa", "type": "note/1", "payload": {"text": str(n)}} for n in range(count)]
            receipts = await pm.send_many(notes)
            refused = 0
            while refused < count:
                for message in await qa.poll(wait=10, max=100):
                    await message.nack("refuse", "no such thing")
                    refused += 1
            return [receipt.sequence or 0 for receipt in receipts]

    return asyncio.run(act())


def ask(shell: Shell, verb: str, *more: object, status: int = 0) -> dict:
    """The document of `dead-letters VERB --json`."""
    done = shell("dead-letters", verb, *more, "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def wait_begun(shell: Shell, count: int) -> None:
    """Wait until the newest job runs and has replayed `count`; those of other tests have ended."""

    def has_begun() -> bool:
        newest = ask(shell, "replays")["replays"][-1]
        return newest["state"] == "running" and newest["replayed"] >= count

    wait_until(has_begun, f"the job has replayed {count}")


def receive(shell: Shell) -> list[str]:
    """What qa has."""
    return texts(shell.recv("qa", "--max", 100))


def resolve_all(shell: Shell) -> None:
    """Leave nothing open."""
    places = ["{recipient}/{channel}/{channel_sequence_id}".format(**one) for one in ask(shell, "list")["dead_letters"]]
    if places:
        ask(shell, "resolve", *places)


def test_a_job_is_watched_to_its_end(running: Shell) -> None:
    """The plan tells which; the job's last words are what it has done; all of it is listed and received."""
    bury(running, 7)
    plan = ask(running, "replay", "--recipient", "qa", "--rate", "50", "--limit", "5", "--dry-run")
    assert (plan["matched"], plan["replayed"], len(ask(running, "list")["dead_letters"])) == (5, 0, 7)
    done = running(
        "dead-letters", "replay", "--recipient", "qa", "--rate", "50", "--limit", 5, "--before", plan["cut_off"]
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "done: 5 replayed, 0 refused" in done.stdout
    assert receive(running) == ["0", "1", "2", "3", "4"]
    newest = ask(running, "replays")["replays"][-1]
    assert (newest["state"], newest["replayed"], newest["rate"], newest["limit"]) == ("done", 5, 50, 5)
    assert ask(running, "replay", "--all", "--rate", 0)["replayed"] == 2
    assert receive(running) == ["5", "6"]


def test_a_job_is_left_alone_and_cancelled(running: Shell) -> None:
    """`--detach` tells its id; `replays` how far it is; `cancel` ends it, and the rest stays dead."""
    bury(running, 3)
    job = ask(running, "replay", "--all", "--rate", "0.01", "--detach")
    assert (job["state"], job["matched"]) == ("running", 3)
    wait_begun(running, 1)
    assert f"{job['id']} running: 1 replayed, 0 refused, 2 to go" in running("dead-letters", "replays").stdout
    assert ask(running, "cancel", job["id"])["state"] == "cancelled"
    assert "2 at most, was left alone" in running("dead-letters", "cancel", job["id"]).stdout
    assert len(ask(running, "list")["dead_letters"]) == 2
    unknown = running("dead-letters", "cancel", "no-such")
    assert (unknown.returncode, "not-found" in unknown.stderr) == (1, True)
    assert receive(running) == ["0"]
    resolve_all(running)


def test_ctrl_c_cancels_the_job_and_says_what_it_did(running: Shell) -> None:
    """A person who changes their mind finds the rest as it was."""
    bury(running, 3)
    command = [MULTICLAW, "dead-letters", "replay", "--all", "--rate", "0.01", "--config", running.config]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    wait_begun(running, 1)
    watching.send_signal(signal.SIGINT)
    said, complained = watching.communicate(timeout=20)
    assert watching.returncode == 130
    assert "cancelled: 1 replayed, 0 refused; the rest, 2 at most, was left alone" in said
    assert "what was replayed stays so" in complained
    assert ask(running, "replays")["replays"][-1]["state"] == "cancelled"
    assert receive(running) == ["0"]
    resolve_all(running)


def test_a_job_goes_on_when_the_adapter_is_killed(running: Shell) -> None:
    """`kill -9` in the middle, `up` starts it again: the one who watches sees the end, and each comes once."""
    bury(running, 60)
    command = [MULTICLAW, "dead-letters", "replay", "--all", "--rate", "30", "--json", "--config", running.config]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    wait_begun(running, 5)
    killed = running.kill_adapter()
    said, complained = watching.communicate(timeout=60)
    assert watching.returncode == 0, complained
    job = json.loads(said)
    assert (job["state"], job["replayed"], job["refused"]) == ("done", 60, 0)
    running.wait_restarted(killed)
    running.wait_connected()
    assert receive(running) == [str(n) for n in range(60)]
    assert ask(running, "list")["dead_letters"] == []


def test_a_dead_letter_is_edited_and_sent_anew(running: Shell, tmp_path: Path) -> None:
    """With $EDITOR; the new message names the old, and the old one says where the new one is."""
    (sequence,) = bury(running, 1)
    place = f"qa/@qa/{sequence}"
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/0/mended/ "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISUAL", str(editor))
        sent = ask(running, "resend", place, "--edit")
    (delivery,) = running.recv("qa")
    replaces = {"recipient": "qa", "channel": "@qa", "channel_sequence_id": sequence}
    assert (delivery["envelope"]["payload"], delivery["envelope"]["replaces"]) == ({"text": "mended"}, replaces)
    assert delivery["envelope"]["sender"] == "orchestrator"
    shown = ask(running, "show", place)
    assert shown["closure"] == "resent"
    assert shown["replaced_by"] == {"channel": "@qa", "channel_sequence_id": sent["channel_sequence_id"]}
    assert f"replaced by @qa/{sent['channel_sequence_id']}" in running("dead-letters", "show", place).stdout
    same = ("resend", place, "--payload", '{"text": "mended"}', "--key", sent["idempotency_key"])
    assert ask(running, *same)["status"] == "duplicate"
    again = running("dead-letters", "resend", place, "--payload", '{"text": "0"}')
    assert (again.returncode, "not-dead" in again.stderr) == (1, True)


def test_what_cannot_be_sent_anew_is_kept(running: Shell, tmp_path: Path) -> None:
    """What a person wrote into the editor is not lost, whether it is no JSON or no payload of that contract."""
    (sequence,) = bury(running, 1)
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "{broken" > "$1"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISUAL", str(editor))
        failed = running("dead-letters", "resend", f"qa/@qa/{sequence}", "--edit")
    assert failed.returncode == 1
    kept = Path(failed.stderr.rpartition("--payload-file ")[2].strip())
    assert kept.read_text() == "{broken\n"
    kept.write_text('{"text": "mended"}')
    ask(running, "resend", f"qa/@qa/{sequence}", "--payload-file", kept)
    kept.unlink()
    assert receive(running) == ["mended"]


def test_the_same_in_python_with_a_loop_and_without(running: Shell) -> None:
    """`Agent` and `SyncAgent`: a job to its end, a resend in the task of the old one, and one that is refused."""
    first, second, third = bury(running, 3)
    with SyncAgent("orchestrator", config=running.config) as orchestrator:
        letters = orchestrator.dead_letters
        page = letters.page(recipient="qa")["dead_letters"]
        receipt = letters.resend(page[0], payload={"text": "mended"}, type="finding/1", task_id="t-1")
        assert receipt.status == "accepted"
        with pytest.raises(Refused) as refusal:
            letters.resend(("qa", "@qa", first))
        assert refusal.value.type == "not-dead"
        job = letters.start_replay(recipient="qa", limit=1)
        wait_until(lambda: letters.read_replay(job["id"])["state"] == "done", "the job is done")
        assert [known["id"] for known in letters.replays()][-1] == job["id"]
        assert letters.read("qa", "@qa", second)["closure"] == "replayed"

    async def act() -> str:
        async with Agent("orchestrator", config=running.config) as agent:
            job = await agent.dead_letters.start_replay(rate=0.01)
            return str((await agent.dead_letters.cancel_replay(job["id"]))["state"])

    assert asyncio.run(act()) == "cancelled"
    deliveries = running.recv("qa")
    assert sorted(each["envelope"]["type"] for each in deliveries if each["envelope"].get("task_id")) == ["finding/1"]
    assert third
    resolve_all(running)
    running.recv("qa")


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "qa/@qa/1", "--rate", "5"), ("replay", "--all", "--rate", "-1"), ("replay", "--rate", "5"),
        ("replay", "--all", "--limit", "501"), ("replay", "--after", "1.qa", "--rate", "5"),
        ("replay", "--all", "--detach"),
        ("resend", "qa/@qa"), ("cancel",),
    ],
)  # fmt: skip
def test_what_is_ambiguous_is_wrong_use(running: Shell, arguments: tuple[str, ...]) -> None:
    """Before anything is asked of anybody."""
    assert running("dead-letters", *arguments).returncode == 2


async def test_a_resend_waits_in_the_outbox(short_folder: Path) -> None:
    """While the adapter is away it is queued; when it is back, the letter is closed by it. A second one that waited
    behind it finds the letter closed, and is set aside."""
    async with Deployment(short_folder, QUICK) as deployment:
        await deployment.start_adapter()
        await asyncio.gather(*(deployment.start_sidecar(name) for name in ("orchestrator", "pm", "qa")))
        config = deployment.config_path
        async with (
            Agent("orchestrator", config=config) as orchestrator,
            Agent("pm", config=config) as pm,
            Agent("qa", config=config) as qa,
        ):
            await pm.send("@qa", "note/1", {"text": "x"})
            for message in await qa.poll(wait=10):
                await message.nack("refuse", "no")
            letters = orchestrator.dead_letters
            letter = await letters.read("qa", "@qa", 1)
            deployment.kill9_adapter()
            for text in ("mended", "mended again"):
                assert (await letters.resend(letter, payload={"text": text})).status == "queued"
            await deployment.start_adapter()

            async def is_drained() -> bool:
                health = await orchestrator.health()
                return (health["outbox_depth"], health["outbox_dead"]) == (0, 1)

            await until(is_drained, "one is sent, and one is set aside")
            await deployment.connected()
            assert (await letters.read("qa", "@qa", 1))["replaced_by"] == {"channel": "@qa", "channel_sequence_id": 2}
            (delivery,) = await qa.poll(wait=10)
            assert delivery.payload == {"text": "mended"}
            assert delivery.replaces == {"recipient": "qa", "channel": "@qa", "channel_sequence_id": 1}
