"""Agents join and leave while systemd runs everything: no process that works is started again for it."""

import json

from tests.systemd.box import Box
from tests.systemd.installation import MULTICLAW, PREFIX
from tests.systemd.installed import ADAPTER, AGENTS_DEFAULT, CONFIG, WATCH, Installed, alarms, drain, until

SERVICES = (ADAPTER, WATCH, *(f"multiclaw-sidecar@{agent}.service" for agent in AGENTS_DEFAULT))
_WITH_PATH = f"PATH={PREFIX}/bin:$PATH"


def propose(box: Box, *options: str) -> str:
    """The version of a proposal."""
    topology = (MULTICLAW, "topology", "propose", "--config", CONFIG, "--json", "--reason", "it must be operated")
    return str(json.loads(box.run(*topology, *options).stdout)["version"])


def approve(box: Box, version: str) -> list[str]:
    """Approve as root; what is to be done next, as it says."""
    said = box.run(MULTICLAW, "topology", "approve", version, "--config", CONFIG).stdout.splitlines()
    return [line.removeprefix("next: ") for line in said if line.startswith("next: ")]


def doctor(box: Box) -> str:
    return box.run(MULTICLAW, "doctor", "--config", CONFIG, check=False).stdout


def test_an_agent_joins_and_leaves_while_all_run(running: Installed) -> None:
    """Approved, it is installed and started by the commands that the approval names, sends, receives, and is heard in
    an emergency. No other process is started again. After a restart its key is a credential like all others."""
    box = running.box
    before = {unit: running.pid(unit) for unit in SERVICES}
    steps = approve(box, propose(box, "--add-agent", "ops=execution", "--join", "product=ops"))
    assert "the sidecar of ops is not installed: multiclaw install-units" in doctor(box)
    for step in steps:
        box.run("sh", "-c", f"{_WITH_PATH} {step}")
    assert "the sidecar of every agent is installed" in doctor(box)
    with running.agent("ops") as ops, running.agent("pm") as pm, running.agent("orchestrator") as orchestrator:
        drain(pm)
        pm.send("product", "note/1", {"text": "to all"})
        pm.send("@ops", "note/1", {"text": "to you"})
        assert ops.send("@pm", "note/1", {"text": "from me"}).status == "accepted"
        heard = list[str]()
        until(lambda: heard.extend(drain(ops)) or len(heard) == 2, "it receives")
        assert (heard, drain(pm)[-1]) == (["to all", "to you"], "from me")
        ops.emergency("joined", "help")
        until(lambda: "ops" in [alarm["agent"] for alarm in alarms(orchestrator)], "the orchestrator is told")
        assert {unit: running.pid(unit) for unit in SERVICES} == before
        box.run("rm", "/run/multiclaw/keys/ops.key")
        box.run("systemctl", "restart", ADAPTER)
        until(lambda: ops.send("@pm", "note/1", {"text": "again"}).status == "accepted", "it is let in again")
    _leave(running)


def _leave(running: Installed) -> None:
    approve(running.box, propose(running.box, "--remove-agent", "ops"))
    (stop,) = (line.partition("systemctl ")[2] for line in running.install() if "multiclaw-sidecar@ops.service" in line)
    running.box.run("systemctl", *stop.split())
    running.box.run("systemctl", "stop", "multiclaw-sidecar@ops.socket")
    running.box.path(f"{CONFIG}.previous").unlink()
    assert running.ask("sidecar-pm.sock") == 200


def test_what_is_missing_is_named(running: Installed) -> None:
    """Approved by a user who cannot read the keys, without the folder for new keys, or with a name that is too long for
    a user: nothing is approved, and the words say what to do."""
    box = running.box
    version = propose(box, "--add-agent", "ops=execution")
    topology = (MULTICLAW, "topology", "approve", version, "--config", CONFIG)
    refused = box.run("runuser", "-u", "daemon", "--", *topology, check=False)
    assert (refused.returncode, "or as root" in refused.stderr) == (78, True)
    box.run("mv", "/run/multiclaw/keys", "/run/away")
    refused = box.run(*topology, check=False)
    assert (refused.returncode, f"multiclaw install-units --config {CONFIG}" in refused.stderr) == (78, True)
    box.run("mv", "/run/away", "/run/multiclaw/keys")
    long = propose(box, "--add-agent", f"{'a' * 28}=execution")
    refused = box.run(MULTICLAW, "topology", "approve", long, "--config", CONFIG, check=False)
    assert (refused.returncode, "more than 27 characters" in refused.stderr) == (78, True)
    for number in (version, long):
        denied = box.run(MULTICLAW, "topology", "deny", number, "--config", CONFIG, "--json").stdout
        assert json.loads(denied)["state"] == "denied"


def test_handed_keys_are_the_adapters_alone(running: Installed) -> None:
    """Neither a sidecar nor an agent gets into the folder, though sidecars are in the adapter's group."""
    box = running.box
    listed = ("runuser", "-u", "mc-pm", "--", "ls", "/run/multiclaw/keys")
    assert box.run(*listed, check=False).returncode != 0
    group = box.run("id", "-g", "multiclaw").stdout.strip()
    sidecar = ("setpriv", "--reuid=61234", "--regid=61234", f"--groups={group}")
    assert box.run(*sidecar, "ls", "/run/multiclaw/keys", check=False).returncode != 0
    assert box.run("runuser", "-u", "multiclaw", "--", "ls", "/run/multiclaw/keys", check=False).returncode == 0
