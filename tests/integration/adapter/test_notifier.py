"""Messages to the Human Governor are told of outside, at least once each, and nothing waits for that."""

import asyncio
import json
import socket
import ssl
import sys
import time
from pathlib import Path

import pytest
from aiohttp import web

from adapter.core.notice import Notice
from adapter.hooks import ways_of
from adapter.notifier import Notifier, NotToldError
from shared.escalation import Escalation
from shared.journal import Journal
from shared.journal_events import GOVERNOR_ESCALATION
from shared.names import GOVERNOR
from shared.strict_json import encode
from tests.integration.adapter.conftest import Link
from tests.support.clock import SettableClock
from tests.support.deployment import until
from tests.support.fake_journal import fake_journal

TO = "@human-governor"
CERTIFICATE = Path(__file__).with_name("loopback.pem")
"""Of 127.0.0.1, signed by itself and good from 2020 to 2126, with its key, which guards nothing."""

RECORD = """
import pathlib, sys
folder = pathlib.Path(sys.argv[1])
data = sys.stdin.read()
with (folder / "told").open("a") as file:
    file.write(data + "\\n")
if (folder / "fails").exists():
    sys.exit(3)
if (folder / "hangs").exists():
    import time; (folder / "hanging").touch(); time.sleep(600)
"""
"""A command that keeps what it is told, and fails or hangs where a test says so."""


class Webhook:
    """An HTTP server that keeps what it is told; with `tls`, over TLS with the certificate of `CERTIFICATE`."""

    def __init__(self, *, tls=False):
        self.told, self.status, self.url = [], 200, ""
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if tls else None
        if self._context:
            self._context.load_cert_chain(CERTIFICATE)

    async def __aenter__(self):
        async def handle(request):
            self.told.append(await request.json())
            return web.Response(status=self.status, headers={"Location": self.url})

        self._runner = web.ServerRunner(web.Server(handle))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context)
        await site.start()
        self.url = f"{'https' if self._context else 'http'}://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/hook?token=t"
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()


def command(folder):
    (folder / "record.py").write_text(RECORD)
    return [sys.executable, "-S", str(folder / "record.py"), str(folder)]


def told(folder):
    """The sequences that the command was told of, in order."""
    file = folder / "told"
    return [json.loads(line)["channel_sequence_id"] for line in file.read_text().splitlines()] if file.exists() else []


def journal_lines(link):
    """What went to the file that stands in for the journal here."""
    file = link.config.adapter_state / "emergencies.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def environment(**settings):
    return {f"MULTICLAW_ESCALATION__{name.upper()}": json.dumps(value) for name, value in settings.items()}


def note(text):
    return {"type": "escalation/1", "payload": {"summary": text}}


async def test_each_way_is_told_of_each_message(short_folder):
    """Journal, command and webhook, in order, with the summary, the sender and the whole message."""
    async with Webhook() as hook, Link(short_folder) as link:
        settings = environment(command=command(short_folder), webhook=hook.url)
        await link.start_adapter(settings)
        pm = await link.client("pm")
        await pm.send(TO, **note("first"))
        await pm.send(TO, payload={"text": "second"})
        await until(lambda: told(short_folder) == [1, 2] and len(hook.told) == 2, "both are told of")
        assert [one["summary"] for one in hook.told] == ["first", "note/1 from pm"]
        assert hook.told[0].items() >= {"channel": TO, "type": "escalation/1", "sender": "pm"}.items()
        assert hook.told[0]["envelope"]["payload"] == {"summary": "first"}
        assert [json.loads(line) for line in (short_folder / "told").read_text().splitlines()] == hook.told


async def test_a_pattern_of_dead_letters_reaches_a_human(short_folder):
    """From the refusals to the inbox and the hook (promise 6)."""
    async with Link(short_folder, {"alert_window_seconds": 0.2}) as link:
        await link.start_adapter(environment(command=command(short_folder), repeats=3))
        pm, qa, governor = await link.client("pm"), await link.client("qa"), await link.client(GOVERNOR)
        for _ in range(3):
            await pm.send("@qa")
            (message,) = await qa.poll()
            await qa.nack(message["delivery_id"], "refuse")
        await until(lambda: told(short_folder) == [1], "the command is told")
        (message,) = (await governor.call("GET", "/link/v1/governor/inbox")).document["messages"]
        assert message["envelope"]["payload"].items() >= {"agent": "qa", "reason": "refused", "repeated": True}.items()
        assert message["envelope"]["payload"]["count"] >= 3


async def test_a_crash_before_the_mark_tells_again(short_folder):
    """The adapter is killed while the command runs: the next one tells of it, and not of what was told before."""
    async with Link(short_folder) as link:
        settings = environment(command=command(short_folder))
        await link.start_adapter(settings)
        pm = await link.client("pm")
        await pm.send(TO, **note("first"))
        await until(lambda: told(short_folder) == [1], "the first is told of")
        (short_folder / "hangs").touch()
        await pm.send(TO, **note("second"))
        await until((short_folder / "hanging").exists, "the command hangs")
        link.kill9_adapter()
        (short_folder / "hangs").unlink()
        await link.start_adapter(settings)
        await until(lambda: told(short_folder) == [1, 2, 2], "the second is told of again")
        assert await link.adapter.stop() == 0
        await link.start_adapter(settings)
        await link.adapter.stop()
        assert told(short_folder) == [1, 2, 2]


async def test_a_failing_way_is_tried_again_and_holds_up_no_other(short_folder):
    """The webhook refuses, the command is told meanwhile; health says what fails, and no longer once it works."""
    async with Webhook() as hook, Link(short_folder) as link:
        hook.status = 302
        await link.start_adapter(environment(command=command(short_folder), webhook=hook.url))
        pm = await link.client("pm")
        await pm.send(TO, **note("first"))
        await pm.send(TO, **note("second"))
        await until(lambda: told(short_folder) == [1, 2] and bool(hook.told), "the command is told of both")
        warnings = (await pm.health()).document["warnings"]
        assert any("webhook answered 302" in warning for warning in warnings)
        assert not any("token" in warning for warning in warnings)
        hook.status = 204
        await until(lambda: hook.told[-1]["channel_sequence_id"] == 2, "the webhook is told of both")
        await until(lambda: health_is_clear(pm), "health is clear")


async def health_is_clear(client):
    return (await client.health()).document["warnings"] == []


async def test_a_stop_does_not_wait_for_a_hook(short_folder):
    """A command that hangs is ended with the adapter, and everything it started."""
    async with Link(short_folder) as link:
        (short_folder / "hangs").touch()
        await link.start_adapter(environment(command=command(short_folder), hook_seconds=300))
        pm = await link.client("pm")
        await pm.send(TO, **note("x"))
        await until((short_folder / "hanging").exists, "the command hangs")
        assert (await pm.send("@qa"))["code"] == 201
        begun = time.monotonic()
        assert await link.adapter.stop() == 0
        assert time.monotonic() - begun < 5


async def test_a_new_way_begins_with_what_is_unread(short_folder):
    """Turning a webhook on does not tell of what humans have long read."""
    async with Webhook() as hook, Link(short_folder) as link:
        await link.start_adapter()
        pm, governor = await link.client("pm"), await link.client(GOVERNOR)
        for text in ("one", "two", "three"):
            await pm.send(TO, **note(text))
        await governor.call("POST", "/link/v1/governor/read", {"sequences": [1, 2]})
        await link.adapter.stop()
        await link.start_adapter(environment(webhook=hook.url))
        await until(lambda: bool(hook.told), "the webhook is told")
        assert [one["summary"] for one in hook.told] == ["three"]


NOTICE = Notice(7, "escalation/1", "pm", "help", {"to": TO, "payload": {"summary": "help"}, "type": "escalation/1"})


def ways(tmp_path, **settings):
    journal = Journal("multiclaw-adapter", tmp_path, SettableClock(), tmp_path / "journal")
    return ways_of(Escalation(**settings), journal)


async def test_an_entry_in_the_journal_names_the_message(tmp_path):
    """Critical, under the id of escalations, with channel, sequence, type and summary."""
    with fake_journal(tmp_path / "journal") as journal:
        await ways(tmp_path)["journal"](NOTICE)
        (entry,) = journal.entries()
    assert (entry["PRIORITY"], entry["MESSAGE"]) == (b"2", b"help")
    assert entry["MESSAGE_ID"].decode() == GOVERNOR_ESCALATION.message_id
    details = json.loads(entry["MULTICLAW_DETAILS"])
    assert (details["channel"], details["channel_sequence_id"], details["type"]) == (TO, 7, "escalation/1")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["/nonexistent/hook"], "cannot be started"),
        ([sys.executable, "-S", "-c", "raise SystemExit(3)"], "status 3"),
        ([sys.executable, "-S", "-c", "import time; time.sleep(600)"], "longer than 0.5 s"),
    ],
)
async def test_a_command_that_fails_says_how(tmp_path, argv, words):
    """Missing, failing, or slow: each is a failure that is tried again."""
    with pytest.raises(NotToldError, match=words):
        await ways(tmp_path, command=argv, hook_seconds=0.5)["command"](NOTICE)


async def test_a_command_is_not_read_by_a_shell(tmp_path):
    """What looks like shell stays an argument, and one that reads nothing of its input has succeeded."""
    target = tmp_path / "made"
    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    argv = [sys.executable, "-S", "-c", code, str(target), "$(id); true"]
    await ways(tmp_path, command=argv)["command"](NOTICE)
    assert target.read_text() == "$(id); true"


async def test_what_a_late_command_started_ends_with_it(tmp_path):
    """Its whole session is killed."""
    code = (
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path(sys.argv[1]).write_text(str(child.pid)); time.sleep(600)"
    )
    argv = [sys.executable, "-S", "-c", code, str(tmp_path / "pid")]
    with pytest.raises(NotToldError):
        await ways(tmp_path, command=argv, hook_seconds=2)["command"](NOTICE)
    stat = tmp_path.joinpath("/proc", (tmp_path / "pid").read_text(), "stat")
    await until(lambda: not stat.exists() or ") Z " in stat.read_text(), "the child has ended")


@pytest.mark.parametrize("status", [200, 204])
async def test_a_webhook_that_takes_it_has_succeeded(tmp_path, status):
    """Any 2xx."""
    async with Webhook() as hook:
        hook.status = status
        await ways(tmp_path, webhook=hook.url)["webhook"](NOTICE)
        assert hook.told[0]["summary"] == "help"


async def test_a_webhook_over_tls_must_be_one_that_the_host_trusts(tmp_path, monkeypatch):
    """What the host trusts when it is called counts, and not what it trusted when the adapter was started."""
    async with Webhook(tls=True) as hook:
        with pytest.raises(NotToldError, match="CERTIFICATE_VERIFY_FAILED"):
            await ways(tmp_path, webhook=hook.url)["webhook"](NOTICE)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        await ways(tmp_path, webhook=hook.url)["webhook"](NOTICE)
        assert [one["summary"] for one in hook.told] == ["help"]


async def test_a_webhook_that_is_not_there_or_hangs_is_a_failure(tmp_path):
    """Within its time limit."""
    with pytest.raises(NotToldError, match="cannot be reached"):
        await ways(tmp_path, webhook="http://127.0.0.1:9/")["webhook"](NOTICE)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel connects, and nobody answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(NotToldError, match="longer than"):
            await ways(tmp_path, webhook=url, hook_seconds=0.3)["webhook"](NOTICE)


class OneLetter:
    """Broker and store of a deployment whose Governor has one message."""

    on_letter = None

    async def ask(self, announced):
        """What was told stays told."""
        return announced.sequence or 0

    async def read(self, _):
        """The message."""
        return [(1, encode(NOTICE.envelope | {"sender": "pm"}))]


async def test_a_stop_outlives_a_cancellation_that_is_lost():
    """A way that swallows the first one ends all the same."""
    begun, cancelled = asyncio.Event(), []

    async def tell(_):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            if len(cancelled) > 1:
                raise

    everything = OneLetter()
    async with asyncio.timeout(10):
        async with Notifier(everything, everything, {"deaf": tell}).running():
            await begun.wait()
    assert len(cancelled) == 2
