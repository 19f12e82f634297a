"""A real systemd and journald, booted in private namespaces; the machine's own are not touched.

PID, mount, network, IPC and UTS namespaces and cgroup root are the box's own; its root file system is a copy-on-write
view of the machine's. Everything ends with the box, and nothing written inside survives. Its files are reached from
outside through `path`, its Unix sockets too.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

BOOT_SECONDS_MAX = 30.0
COMMAND_SECONDS_MAX = 60.0

_BOOT = Path(__file__).with_name("boot.sh")
_SYSTEMD = Path("/lib/systemd/systemd")
_UNSHARE, _NSENTER, _SETPRIV = "/usr/bin/unshare", "/usr/bin/nsenter", "/usr/bin/setpriv"
_NAMESPACES = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup")


def why_not() -> str | None:
    """Why no box can be booted here, in words for a skipped test; None where one can."""
    if os.geteuid() != 0:
        return "systemd cannot be booted in a box: this needs root"
    if not _SYSTEMD.exists():
        return f"systemd cannot be booted in a box: there is no {_SYSTEMD}; apt install systemd"
    missing = [tool for tool in (_UNSHARE, _NSENTER, _SETPRIV) if not Path(tool).exists()]
    if missing:
        return f"systemd cannot be booted in a box: there is no {', '.join(missing)} (util-linux)"
    file_systems = Path("/proc/filesystems").read_text(encoding="ascii").split()
    absent = {"overlay", "cgroup2"} - set(file_systems)
    if absent:
        return f"systemd cannot be booted in a box: the kernel has no {', '.join(sorted(absent))}"
    done = subprocess.run(  # noqa: S603 - the system's own tool
        [_UNSHARE, *_NAMESPACES, "--fork", "true"], capture_output=True, check=False, text=True
    )
    return f"systemd cannot be booted in a box: {done.stderr.strip()}" if done.returncode else None


class Box:
    """A booted box. Used with `with`: at the end it is killed, whole."""

    def __init__(self, shown: Mapping[Path, str] | None = None) -> None:
        """`shown` maps folders of the machine to where they are seen inside, read-only."""
        self._folder = Path(tempfile.mkdtemp(prefix="systemd-box-"))
        for name in ("root", "cow"):
            (self._folder / name).mkdir()
        pairs = [text for source, target in (shown or {}).items() for text in (str(source), target)]
        command = ["sh", str(_BOOT), str(self._folder), *pairs]
        with (self._folder / "log").open("wb") as log:
            self._outer = subprocess.Popen(  # noqa: S603 - the system's own tools
                # If this process is killed, the box dies with it.
                [_SETPRIV, "--pdeathsig", "KILL", _UNSHARE, *_NAMESPACES, "--fork", "--kill-child", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        try:
            self._pid1 = self._booted()
        except BaseException:
            self.close()
            raise

    def _booted(self) -> int:
        deadline = time.monotonic() + BOOT_SECONDS_MAX
        while self._outer.poll() is None and time.monotonic() < deadline:
            for pid in map(int, self._children.read_text(encoding="ascii").split()):
                if Path(f"/proc/{pid}/root/run/systemd/private").exists():
                    self._pid1 = pid
                    state = self.run("systemctl", "is-system-running", "--wait", check=False).stdout.strip()
                    assert state in {"running", "degraded"}, f"the box is {state}"
                    return pid
            time.sleep(0.01)
        raise AssertionError(f"the box did not boot: {(self._folder / 'log').read_text()}")

    def path(self, inside: str) -> Path:
        """A path of the box, as this process can open it."""
        return Path(f"/proc/{self._pid1}/root{inside}")

    def run(
        self, *command: str, check: bool = True, stdin: str | None = None, seconds_max: float = COMMAND_SECONDS_MAX
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root; with `check`, an `AssertionError` tells what it said when it fails."""
        done = subprocess.run(  # noqa: S603 - inside the box
            self._entering(command),
            input="" if stdin is None else stdin,
            capture_output=True,
            text=True,
            timeout=seconds_max,
            check=False,
        )
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    @contextlib.contextmanager
    def spawned(self, *command: str) -> Iterator["subprocess.Popen[str]"]:
        """A command that runs inside until the block ends, with pipes; its standard input is then closed."""
        with subprocess.Popen(  # noqa: S603 - inside the box
            self._entering(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            yield process

    def _entering(self, command: tuple[str, ...]) -> list[str]:
        return [_NSENTER, "-t", str(self._pid1), *_NAMESPACES, "--root", "--wdns=/", "--", *command]

    def write(self, inside: str, text: str, mode: int = 0o644) -> None:
        """Put a file into the box, with its folders."""
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)

    def close(self) -> None:
        """Kill everything in it, and remove what was mounted; also after a boot that failed."""
        with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):  # it has ended already
            os.kill(int(self._children.read_text(encoding="ascii")), signal.SIGKILL)
            self._outer.wait(1)
        self._outer.kill()
        self._outer.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
