"""The watcher on a real journal: nothing is missed or told twice, whatever becomes of journal and watcher."""

import pytest

from shared.journal_events import EMERGENCY
from shared.times import MICROSECONDS, from_iso
from tests.systemd.box import Box
from tests.systemd.installed import until
from tests.systemd.journald import record
from tests.systemd.watch_process import WatchProcess

_AS_DEBIAN_HAS_IT = ("systemd-tmpfiles", "--create", "--prefix=/var/log/journal")
_SOCKETS = ("systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald-audit.socket")


@pytest.fixture(scope="module")
def watch(box: Box) -> WatchProcess:
    """A deployment to be watched, beside the one that systemd runs."""
    return WatchProcess(box)


def emit(box: Box, *kinds: str, user: str = "root") -> None:
    """One emergency for each kind, without our code, which takes longer to start."""
    for kind in kinds:
        fields = f"MESSAGE=help\nMESSAGE_ID={EMERGENCY.message_id}\nMULTICLAW_KIND={kind}\n"
        box.run("runuser", "-u", user, "--", "logger", "--journald", stdin=fields)


def shows(watch: WatchProcess, prefix: str, kinds: list[str]) -> None:
    """Wait until just these kinds were printed; a failure tells what was, and the watcher's own words."""
    try:
        until(lambda: watch.kinds(prefix) == kinds, f"{kinds} are shown")
    except AssertionError as error:
        events = [(alarm["event"], alarm["kind"], alarm["entry"]) for alarm in watch.shown()]
        raise AssertionError(f"{error}\nshown: {events}\nits log: {watch.log()}") from error


def rotate(box: Box) -> None:
    """Begin new files, and remove those before."""
    box.run("journalctl", "--rotate")
    box.run("journalctl", "--vacuum-size=1")


def test_over_kills_of_the_watcher(box: Box, watch: WatchProcess) -> None:
    """Killed between entries, it goes on with the next; entries of another user are not taken."""
    emit(box, "kill-old")
    with watch.running():
        emit(box, "kill-1", "kill-2")
        shows(watch, "kill", ["kill-1", "kill-2"])
    emit(box, "kill-3", "kill-4")
    emit(box, "kill-forged", user="daemon")
    with watch.running():
        emit(box, "kill-5")
        until(lambda: "kill-5" in watch.kinds("kill"), "the last one is shown")
    assert watch.kinds("kill") == [f"kill-{n}" for n in range(1, 6)]


def test_an_alarm_does_not_wait_for_the_news_of_it(box: Box, watch: WatchProcess) -> None:
    """journald tells of an entry a quarter of a second after it has written it, or later; an alarm is shown before."""
    kinds = [f"soon-{number}" for number in range(5)]
    after: list[float] = []
    with watch.running():
        for number, kind in enumerate(kinds, 1):
            emit(box, kind)
            shows(watch, "soon", kinds[:number])
            after.append(watch.shown_seconds() - from_iso(watch.shown()[-1]["time"]) / MICROSECONDS)
    assert min(after) < 0.2, after


def test_over_rotation_and_vacuum(box: Box, watch: WatchProcess) -> None:
    """While it runs, nothing is lost by them; what was removed while it did not run is told of as a gap."""
    with watch.running():
        emit(box, "rotate-1")
        box.run("journalctl", "--rotate")
        emit(box, "rotate-2")
        shows(watch, "rotate", ["rotate-1", "rotate-2"])
        rotate(box)
        emit(box, "rotate-3")
        shows(watch, "rotate", ["rotate-1", "rotate-2", "rotate-3"])
        assert [alarm for alarm in watch.shown() if alarm["event"] == "watch-gap"] == []
    emit(box, "rotate-lost")
    rotate(box)
    emit(box, "rotate-4")
    with watch.running():
        until(lambda: watch.kinds("rotate")[3:] == ["rotate-4"], "the kept one is shown")
        until(lambda: [alarm["event"] for alarm in watch.shown()].count("watch-gap") == 1, "the gap is told")


def test_over_a_stop_of_the_journal(box: Box, watch: WatchProcess) -> None:
    """What is written while journald is stopped is read from the file; what comes after its start from the journal."""
    sidecar = "/run/watched/state/sidecar-pm"
    with watch.running():
        box.run("systemctl", "stop", *_SOCKETS, "systemd-journald.service")
        try:
            record(box, ("emergency", "help", "stop-1", None), folder=sidecar)
            shows(watch, "stop", ["stop-1"])
        finally:
            box.run("systemctl", "start", *_SOCKETS, "systemd-journald.service")
        emit(box, "stop-2")
        shows(watch, "stop", ["stop-1", "stop-2"])
        assert [alarm["source"] for alarm in watch.shown() if alarm["kind"].startswith("stop")] == ["file", "journal"]


def test_over_a_move_to_disk(box: Box, watch: WatchProcess) -> None:
    """A journal in memory that is flushed to a folder on disk that was not there goes on as the same journal."""
    volatile = "/run/systemd/journald.conf.d/volatile.conf"
    box.write(volatile, "[Journal]\nStorage=volatile\n")
    box.run("rm", "-rf", "/var/log/journal")
    try:
        box.run("systemctl", "restart", "systemd-journald")
        with watch.running():
            emit(box, "move-1")
            shows(watch, "move", ["move-1"])
            box.path(volatile).unlink()
            box.run("mkdir", "/var/log/journal")
            box.run(*_AS_DEBIAN_HAS_IT)
            box.run("systemctl", "restart", "systemd-journald")
            box.run("journalctl", "--flush")
            emit(box, "move-2")
            shows(watch, "move", ["move-1", "move-2"])
        with watch.running():
            emit(box, "move-3")
            until(lambda: "move-3" in watch.kinds("move"), "the last one is shown")
        assert watch.kinds("move") == ["move-1", "move-2", "move-3"]
    finally:
        box.path(volatile).unlink(missing_ok=True)
        box.run("mkdir", "-p", "/var/log/journal")
        box.run(*_AS_DEBIAN_HAS_IT)
        box.run("systemctl", "restart", "systemd-journald")
