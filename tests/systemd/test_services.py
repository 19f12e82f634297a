"""The deployment as systemd runs it: ready when it says so, back after a kill, given up on when it cannot run."""

import itertools
import json
import time
from typing import Any

import pytest

from multiclaw.watch.core.entry import identity
from shared.journal_events import EMERGENCY, START_LIMIT_HIT
from tests.systemd.installation import MULTICLAW, PYTHON
from tests.systemd.installed import ADAPTER, AGENTS_DEFAULT, CONFIG, WATCH, Installed, Traffic, alarms, drain, until
from tests.systemd.journald import entries
from tests.systemd.restarts import kill_once

_HOLD_STORE = """
import sys
from shared.database import library_checksums
from shared.database.library import LIBRARY
library_checksums()
store = LIBRARY.connect("/var/lib/multiclaw/adapter/store.db", isolation_level=None)
store.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""
_FORGE = r"""
import socket, sys
journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
emergency, failed, unit = sys.argv[1:]
for fields in (f"MESSAGE_ID={emergency}\nMULTICLAW_KIND=truth", f"MESSAGE_ID={failed}\nUNIT={unit}\nUNIT_RESULT=truth"):
    journal.sendto(f"MESSAGE=forged\nPRIORITY=0\n{fields}\n".encode(), "/run/systemd/journal/socket")
print("forged", flush=True)
sys.stdin.read()
"""
UNIT_FAILED = "d9b373ed55a64feb8242e02dbe79a49c"
_POLL = "/v1/messages?wait=0"
STARTS_MAX = 5
"""Of the unit: `StartLimitBurst`."""


def test_started_means_ready(running: Installed) -> None:
    """`systemctl start` returns when `/health` says 200, not before."""
    running.box.run("systemctl", "stop", ADAPTER)
    running.box.run("systemctl", "start", ADAPTER)
    assert running.show(ADAPTER, "StatusText") == "ready"  # asked first: a question to the socket would wait for it
    assert running.ask("adapter.sock") == 200


def test_a_kill_loses_nothing(running: Installed) -> None:
    """kill -9 under load: systemd starts the adapter again after its two seconds, and it serves well within the ten
    that are promised. Every send that was acknowledged, before, during and after, is received once, in order."""
    with running.agent("pm") as pm, running.agent("qa") as qa, Traffic(pm, qa) as traffic:
        pid = running.pid()
        until(lambda: len(traffic.received) > 20, "messages flow")
        restart = kill_once(running, traffic)
        traffic.finish()
    assert running.pid() not in {0, pid}
    assert restart.drained < 10
    assert traffic.received == [str(number) for number in range(len(traffic.receipts))]


def test_connections_wait_for_the_next_process(running: Installed) -> None:
    """While the service is down its socket stays, and who connects is answered by the process that comes."""
    inode = running.box.path("/run/multiclaw/adapter.sock").stat().st_ino
    pid = running.pid()
    running.box.run("systemctl", "stop", ADAPTER)
    assert running.ask("adapter.sock") == 200
    assert running.pid() not in {0, pid}
    assert running.box.path("/run/multiclaw/adapter.sock").stat().st_ino == inode


def test_a_process_that_hangs_is_started_again(running: Installed) -> None:
    """Well, it lives on through many periods of its watchdog; stopped, it is killed and replaced."""
    with running.drop_in(ADAPTER, "[Service]\nWatchdogSec=2\n"):
        running.box.run("systemctl", "restart", ADAPTER)
        pid, since = running.pid(), time.monotonic()
        until(lambda: time.monotonic() - since > 5, "two periods have passed")
        assert running.pid() == pid
        running.box.run("kill", "-STOP", str(pid))
        until(lambda: running.pid() not in {0, pid}, "another process runs")
    told = running.box.run("journalctl", "--unit", ADAPTER, "--output=cat").stdout
    assert "Watchdog timeout" in told
    running.box.run("systemctl", "restart", ADAPTER)


def test_agents_wait_for_the_adapter(running: Installed) -> None:
    """Agents that are started while the adapter cannot open its store start once the adapter is ready. They run as
    their own users, and need nothing but what their unit tells them to speak to each other."""
    units = [f"multiclaw-agent@{agent}.service" for agent in AGENTS_DEFAULT]
    running.box.run("systemctl", "stop", ADAPTER)
    with running.box.spawned(PYTHON, "-c", _HOLD_STORE) as holder:
        assert holder.stdout.readline() == "held\n"
        running.box.run("systemctl", "start", "--no-block", *units)
        until(lambda: "locked" in running.show(ADAPTER, "StatusText"), "the adapter says why it is not ready")
        assert running.show(ADAPTER, "ActiveState") == "activating"
        assert {running.show(unit, "SubState") for unit in units} == {"start-pre"}
        assert running.ask("adapter.sock") == 503
    for unit in units:
        until(lambda: running.show(unit, "ActiveState") == "active", f"{unit} runs")  # noqa: B023 - asked in this round
    with running.agent("pm") as pm:
        drain(pm)
        pm.send("@engineering", "query/1", {"question": "who are you?"})
        (answer,) = pm.poll(wait=20)
        answer.ack()
    user = running.box.run("id", "-u", "mc-engineering").stdout.strip()
    assert (answer.sender, answer.payload) == ("engineering", {"text": f"user {user}"})
    running.box.run("systemctl", "stop", *units)


def test_emergencies_carry_the_unit(running: Installed) -> None:
    """What a sidecar writes is known by what journald itself says of the writer; without journald the file has it, and
    the sidecar hands it to journald when that is back, so that the orchestrator is told."""
    box, unit = running.box, "multiclaw-sidecar@pm.service"
    sockets = ("systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald-audit.socket")
    with running.agent("pm") as pm:
        assert pm.emergency("by-unit", "help") == {"recorded": "journald"}
        box.run("systemctl", "stop", *sockets, "systemd-journald.service")
        try:
            assert pm.emergency("by-file", "help") == {"recorded": "file"}
        finally:
            box.run("systemctl", "start", *sockets, "systemd-journald.service")
        with running.agent("orchestrator") as orchestrator:
            told: list[dict[str, Any]] = []
            until(lambda: told.extend(alarms(orchestrator)) or "by-file" in [one["kind"] for one in told], "it is told")
    (late,) = (one for one in told if one["kind"] == "by-file")
    assert (late["unit"], late["agent"], late["source"]) == (unit, "pm", "journal")
    (entry,) = entries(box, f"MESSAGE_ID={EMERGENCY.message_id}", "MULTICLAW_KIND=by-unit")
    folder = box.path("/var/lib/private/multiclaw/sidecar-pm")
    assert (entry["_SYSTEMD_UNIT"], entry["_UID"]) == (unit, str(folder.stat().st_uid))
    assert json.loads((folder / "emergencies.jsonl").read_text().splitlines()[-1])["kind"] == "by-file"


def test_the_start_limit_calls_a_human(running: Installed) -> None:
    """Killed as often as the limit allows, the adapter stays down, one critical entry says so, sends are queued; and
    what a human then starts drains them. The watcher tells the orchestrator of it, while the adapter is down."""
    before = entries(running.box, f"MESSAGE_ID={START_LIMIT_HIT.message_id}")
    with running.agent("pm") as pm, running.agent("qa") as qa:
        drain(qa)
        with running.drop_in(ADAPTER, "[Service]\nRestartSec=100ms\n"):
            assert _killed_until_failed(running) == STARTS_MAX + 1
            assert running.box.run("systemctl", "start", ADAPTER, check=False).returncode != 0
        until(lambda: _calls(running) == len(before) + 1, "a human is called")
        assert pm.send("@qa", "note/1", {"text": "later"}).status == "queued"
        (entry,) = entries(running.box, f"MESSAGE_ID={START_LIMIT_HIT.message_id}")[len(before) :]
        assert (entry["PRIORITY"], entry["MULTICLAW_KIND"]) == ("2", ADAPTER)
        with running.agent("orchestrator") as orchestrator:
            until(lambda: orchestrator.health()["outbox_depth"] > 0, "the orchestrator's sidecar has the alarm")
            running.start()
            told: list[dict[str, Any]] = []
            until(lambda: told.extend(alarms(orchestrator)) or _given_up(told) != [], "the orchestrator is told")
        (alarm,) = _given_up(told)
        assert (alarm["severity"], alarm["kind"], alarm["entry"]) == ("crit", ADAPTER, identity(entry["__CURSOR"]))
        assert {"unit-failed"} <= {one["event"] for one in told if one["kind"] == ADAPTER}
        until(lambda: pm.health()["outbox_depth"] == 0, "the outbox drains")
        assert drain(qa) == ["later"]


def _killed_until_failed(installed: Installed) -> int:
    """Kill the adapter whenever it runs, until systemd gives up; how often."""
    for kills in itertools.count():
        until(lambda: installed.show(ADAPTER, "ActiveState") in {"active", "failed"}, "it runs or has failed")
        if installed.show(ADAPTER, "ActiveState") == "failed":
            return kills
        pid = installed.pid()
        installed.box.run("kill", "-KILL", str(pid))
        until(lambda: installed.pid() != pid, "it is dead")  # noqa: B023 - asked before the next round
    raise AssertionError("not reached")


def _given_up(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [alarm for alarm in told if alarm["event"] == START_LIMIT_HIT.name]


def _calls(installed: Installed) -> int:
    return len(entries(installed.box, f"MESSAGE_ID={START_LIMIT_HIT.message_id}"))


def test_a_fault_of_the_configuration_is_not_retried(running: Installed) -> None:
    """Status 78 ends it at once: no start is wasted on it, and a human is called."""
    calls, path = _calls(running), running.box.path(CONFIG)
    text = path.read_text()
    path.write_text(text + "\n[nonsense]\n")
    try:
        assert running.box.run("systemctl", "restart", ADAPTER, check=False).returncode != 0
        until(lambda: running.show(ADAPTER, "ActiveState") == "failed", "it has failed")
        assert (running.show(ADAPTER, "ExecMainStatus"), running.show(ADAPTER, "NRestarts")) == ("78", "0")
        until(lambda: _calls(running) == calls + 1, "a human is called")
        assert running.ask("adapter.sock") == 0  # and nobody who connects starts it again
        assert running.show(ADAPTER, "ExecMainStatus") == "78"
    finally:
        path.write_text(text)
    with pytest.raises(AssertionError):
        running.box.run("systemctl", "is-active", ADAPTER)
    running.start()


def test_a_sidecar_that_failed_is_named(running: Installed) -> None:
    """The call names the unit of the instance, and its socket no longer takes connections that nobody would answer."""
    unit, path = "multiclaw-sidecar@growth.service", running.box.path("/etc/multiclaw/keys/growth.key")
    key = path.read_text()
    path.write_text("nonsense\n")
    try:
        assert running.box.run("systemctl", "restart", unit, check=False).returncode != 0
        until(lambda: running.show("multiclaw-sidecar@growth.socket", "ActiveState") == "inactive", "it is given up")
    finally:
        path.write_text(key)
    until(lambda: entries(running.box, f"MULTICLAW_KIND={unit}") != [], "a human is called")
    (entry,) = entries(running.box, f"MULTICLAW_KIND={unit}")
    assert (entry["MESSAGE_ID"], entry["PRIORITY"]) == (START_LIMIT_HIT.message_id, "2")
    assert running.ask("sidecar-growth.sock") == 0
    running.start()
    assert running.ask("sidecar-growth.sock") == 200


def test_the_orchestrator_hears_the_truth(running: Installed) -> None:
    """An emergency reaches it once, with the unit and the user that journald saw; what another user forges does not,
    in our name or in systemd's, and is reported instead. The watcher's way in is for sending only."""
    box, told = running.box, list[dict[str, Any]]()
    with running.agent("orchestrator") as orchestrator, running.agent("pm") as pm:
        alarms(orchestrator)
        forging = ("systemd-run", "--quiet", "--pipe", "--wait", "--uid=daemon", PYTHON, "-c", _FORGE)
        with box.spawned(*forging, EMERGENCY.message_id, UNIT_FAILED, ADAPTER) as forger:
            assert forger.stdout.readline() == "forged\n"
            pm.emergency("truth", "help", {"n": 1})
            wanted = {"emergency", "watch-forged"}
            until(
                lambda: told.extend(alarms(orchestrator)) or wanted <= {one["event"] for one in told}, "both are told"
            )
    assert [one["details"] for one in told if "truth" in (one["kind"], one["details"].get("result"))] == [{"n": 1}]
    (emergency,) = (one for one in told if one["event"] == "emergency")
    assert (emergency["agent"], emergency["unit"]) == ("pm", "multiclaw-sidecar@pm.service")
    assert emergency["uid"] == box.path("/var/lib/private/multiclaw/sidecar-pm").stat().st_uid
    (report,) = (one for one in told if one["event"] == "watch-forged")
    assert report["details"]["uid"] == box.run("id", "-u", "daemon").stdout.strip()
    reached = {path: running.ask("sidecar-orchestrator.sock", "multiclaw-watch", path) for path in ("/health", _POLL)}
    assert reached == {"/health": 200, _POLL: 401}
    assert running.ask("sidecar-pm.sock", "multiclaw-watch") == 0


def test_a_killed_watcher_goes_on(running: Installed) -> None:
    """What is written while it is down is told when systemd has started it again, and nothing is told twice."""
    kinds = ["kill-1", "kill-2"]
    told: list[dict[str, Any]] = []
    with running.agent("orchestrator") as orchestrator, running.agent("pm") as pm:
        pm.emergency(kinds[0], "help")
        running.box.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", WATCH)
        pm.emergency(kinds[1], "help")
        until(lambda: told.extend(alarms(orchestrator)) or kinds[1] in [one["kind"] for one in told], "all are told")
    assert [one["kind"] for one in told if one["kind"] in kinds] == kinds


def test_backups_go_to_another_folder(running: Installed) -> None:
    """Where the configuration names one, `install-units` makes it the adapter's and opens it to the adapter, whatever
    its name; taken out of the configuration, it is closed again, and what is in it stays."""
    box, folder = running.box, '/srv/100% "other" disk/multiclaw'
    path = box.path(CONFIG)
    before = path.read_text()

    def made() -> str:
        box.run("systemctl", "restart", ADAPTER)
        return str(json.loads(box.run(MULTICLAW, "backup", "--config", CONFIG, "--json").stdout)["file"])

    try:
        path.write_text(before.replace("[backups]\n", f"[backups]\nfolder = '{folder}'\n"))
        assert f"made {folder}" in running.install()
        elsewhere = made()
    finally:
        path.write_text(before)
        running.install()
    assert elsewhere.startswith(f"{folder}/")
    assert made().startswith("/var/lib/multiclaw/adapter/backups/")
    assert running.show(ADAPTER, "ReadWritePaths") == ""
    assert box.path(elsewhere).exists()
