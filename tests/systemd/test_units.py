"""The unit files: clean, hardened, installed and removed without a trace, and true to what the code says."""

import re
import stat
from pathlib import Path

import pytest

from shared.journal_events import EVENTS, START_LIMIT_HIT
from tests.systemd.box import Box
from tests.systemd.installation import MULTICLAW
from tests.systemd.installed import AGENTS_DEFAULT, Installed

EXPOSURE_MAX = 1.5
"""Of 10; `systemd-analyze security` calls everything under 2 SAFE or OK."""

UNITS = (
    "multiclaw.target",
    "multiclaw-adapter.socket",
    "multiclaw-adapter.service",
    "multiclaw-sidecar@pm.socket",
    "multiclaw-sidecar@pm.service",
    "multiclaw-agent@pm.service",
    "multiclaw-failure@multiclaw-adapter.service",
    "multiclaw-given-up@multiclaw-adapter.target",
    "multiclaw-watch.service",
)


def test_systemd_finds_no_fault(installed: Installed) -> None:
    """`systemd-analyze verify` has nothing to say about any unit."""
    done = installed.box.run("systemd-analyze", "verify", *UNITS)
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize(
    "unit", ["multiclaw-adapter.service", "multiclaw-sidecar@pm.service", "multiclaw-watch.service"]
)
def test_services_are_hardened(installed: Installed, unit: str) -> None:
    """systemd's own judgement of what a service could do if it were taken over stays under the bound."""
    told = installed.box.run("systemd-analyze", "security", "--no-pager", unit).stdout
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", told)
    assert found is not None
    assert float(found[1]) <= EXPOSURE_MAX


def test_installing_again_changes_nothing(installed: Installed) -> None:
    """A second run finds everything in place; a file that was spoiled, and one that is missing, are made anew."""
    assert "nothing was to be changed" in installed.install()
    unit = installed.box.path("/etc/systemd/system/multiclaw-adapter.service")
    link = installed.box.path("/etc/systemd/system/multiclaw.target.wants/multiclaw-sidecar@qa.service")
    before = unit.read_text()
    unit.write_text("spoiled")
    link.unlink()
    assert {line.partition(" ")[0] for line in installed.install()} >= {"wrote", "linked"}
    assert (unit.read_text(), link.is_symlink()) == (before, True)


def test_the_journal_explains_every_entry(installed: Installed) -> None:
    """The installed catalogue has each event's title and help under its id."""
    for event in EVENTS:
        told = installed.box.run("journalctl", "--dump-catalog", event.message_id).stdout
        assert f"Subject: {event.title}" in told
        assert event.help.splitlines()[0] in told


def test_the_failure_unit_says_what_the_table_says() -> None:
    """It runs without our code, so it repeats the id, the name and the priority of the event."""
    text = (Path(__file__).parents[2] / "deploy/systemd/multiclaw-failure@.service").read_text()
    assert f"LogExtraFields=MESSAGE_ID={START_LIMIT_HIT.message_id}\n" in text
    assert f"LogExtraFields=MULTICLAW_EVENT={START_LIMIT_HIT.name}\n" in text
    assert (START_LIMIT_HIT.priority, "SyslogLevel=crit\n" in text) == (2, True)


def test_nobody_reaches_what_is_not_theirs(running: Installed) -> None:
    """Each sidecar has a user of its own and a private state; an agent gets into its own sidecar's socket only."""
    box = running.box
    folders = {agent: box.path(f"/var/lib/private/multiclaw/sidecar-{agent}").stat() for agent in AGENTS_DEFAULT}
    assert len({folder.st_uid for folder in folders.values()}) == len(AGENTS_DEFAULT)
    assert {stat.S_IMODE(folder.st_mode) for folder in folders.values()} == {0o700}
    sockets = ("sidecar-pm.sock", "sidecar-qa.sock", "adapter.sock")
    reached = {socket: running.ask(socket, "mc-pm", "/v1/messages?wait=0") for socket in sockets}
    assert reached == {"sidecar-pm.sock": 200, "sidecar-qa.sock": 0, "adapter.sock": 0}
    for secret in ("/etc/multiclaw/keys/pm.key", "/var/lib/multiclaw/sidecar-pm/token"):
        assert box.run("runuser", "-u", "mc-pm", "--", "cat", secret, check=False).returncode != 0


def test_uninstalled_it_leaves_state_only(fresh_box: Box) -> None:
    """Everything stops and every file of ours outside the state and the configuration is gone."""
    before = _files(fresh_box)
    installed = Installed(fresh_box)
    installed.start()
    added = _files(fresh_box) - before
    assert added
    installed.install("--uninstall")
    assert _files(fresh_box) - before == set()
    assert fresh_box.run("systemctl", "list-units", "--no-legend", "multiclaw*.service").stdout == ""
    assert fresh_box.path("/var/lib/multiclaw/adapter/store.db").exists()
    assert fresh_box.path("/etc/multiclaw/keys/pm.key").exists()
    assert fresh_box.run(MULTICLAW, "install-units", "--uninstall").returncode == 0


def _files(box: Box) -> set[str]:
    folders = ("systemd/system", "sysusers.d", "tmpfiles.d")
    found = [path for folder in folders for path in box.path(f"/etc/{folder}").rglob("*")]
    found += box.path("/usr/local/lib").rglob("*.catalog")
    return {str(path) for path in found if not path.is_dir()}
