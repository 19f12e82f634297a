"""The script `run`, with stand-ins for Python: no network, no real environment. `.ci/run` runs the real thing."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "cat", "cksum", "dirname", "grep", "mkdir", "rm", "sed", "sleep", "tail", "touch")

STAND_IN = """\
#!/bin/sh
# A Python as far as `run` asks it. It notes what it is asked to install, and how it is run in the end.
case "$*" in
*'print("%d.%d"'*) echo "{version}" ;;
*'print(sys.version)'*) echo "{version}.1 (stand-in)" ;;
*'sys.version_info < (3, 11)'*) exit {too_old} ;;
*ensurepip*) exit {no_venv} ;;
*fcntl*) exec {python} "$@" ;;
'-m venv '*)
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && : >"$3/pyvenv.cfg"
    printf '#!/bin/sh\\necho "pip 1 from %s/lib"\\n' "$3" >"$3/bin/pip"
    printf '#!/bin/sh\\necho multiclaw "$@"\\n' >"$3/bin/multiclaw"
    chmod +x "$3"/bin/*
    echo venv >>"{journal}" ;;
'-m pip '*)
    for last in "$@"; do :; done
    echo "pip $last" >>"{journal}"
    {pip} ;;
*) echo "python $*" ;;
esac
"""


class Host:
    """A bare host: a checkout, and a PATH that holds nothing but what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "check out"
        self.bin = folder / "bin"
        self.journal_path = folder / "journal"
        self.root.mkdir()
        self.bin.mkdir()
        shutil.copy(ROOT / "run", self.root / "run")
        (self.root / "pyproject.toml").write_text("one")
        for tool in (*TOOLS, "cp", "chmod"):
            (self.bin / tool).symlink_to(shutil.which(tool) or tool)

    def python(self, name: str, version: str, *, too_old: bool = False, no_venv: bool = False, pip: str = ":") -> None:
        """Put a Python on the PATH."""
        path = self.bin / name
        path.write_text(
            STAND_IN.format(
                version=version,
                too_old=int(too_old),
                no_venv=int(no_venv),
                journal=self.journal_path,
                pip=pip,
                python=sys.executable,
            )
        )
        path.chmod(0o755)

    def command(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """The command line and the environment of `./run ARGUMENTS`."""
        return [str(self.bin / "sh"), str(self.root / "run"), *arguments], {"PATH": str(self.bin)}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """How `./run ARGUMENTS` ended and what it said; it stands in the root folder of the file system."""
        command, environment = self.command(*arguments)
        return subprocess.run(  # noqa: S603 - our own script
            command, env=environment, cwd="/", capture_output=True, text=True, timeout=60, check=False
        )

    def journal(self) -> list[str]:
        """What was installed since the last call."""
        lines = self.journal_path.read_text().splitlines() if self.journal_path.exists() else []
        self.journal_path.unlink(missing_ok=True)
        return lines


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_first_run_installs_and_the_second_does_not(host):
    """One command is enough on a bare host; the next time it goes straight to its job."""
    host.python("python3", "3.12")
    first = host.run("demo", "--runs", "a b")
    assert (first.returncode, first.stdout) == (0, "multiclaw demo --runs a b\n")
    assert host.journal() == ["venv", f"pip {host.root}"]
    second = host.run("multiclaw", "status")
    assert (second.stdout, second.stderr, host.journal()) == ("multiclaw status\n", "", [])


def test_tests_get_what_they_need_and_the_rest_is_shared(host):
    """`./run test` adds the test packages to the same environment, which then serves every job. All tests are dealt to
    workers; what somebody picks is run as it was asked for."""
    host.python("python3", "3.12")
    host.run("setup")
    host.journal()
    tested = host.run("test", "-k", "x")
    assert tested.stdout == "python -m pytest -k x\n"
    assert host.journal() == [f"pip {host.root}[test]"]
    assert host.run("test").stdout.startswith("python -m pytest --numprocesses=auto ")
    host.run("setup")
    assert host.journal() == []


@pytest.mark.parametrize("changed", ["pyproject.toml", "run"])
def test_changed_requirements_are_installed(host, changed):
    """After an update of the checkout the environment follows, and is not made anew."""
    host.python("python3", "3.12")
    host.run("setup")
    host.journal()
    with (host.root / changed).open("a") as file:
        file.write("\n")
    host.run("setup")
    assert host.journal() == [f"pip {host.root}"]


def test_a_python_that_is_too_old_is_named_with_the_one_that_is_needed(host):
    """Status 69, what was found, what is needed, and how to get it; nothing is made."""
    host.python("python3", "3.9", too_old=True)
    result = host.run("demo")
    assert result.returncode == 69
    assert "Python 3.11 or newer is needed; found only: python3 is 3.9." in result.stderr
    assert "apt install" in result.stderr
    assert not (host.root / ".venv").exists()


def test_a_newer_python_under_another_name_is_found(host):
    """An old `python3` beside a `python3.13`, as on hosts that keep their system's Python."""
    host.python("python3", "3.9", too_old=True)
    host.python("python3.13", "3.13")
    assert host.run("demo").returncode == 0


def test_no_python_at_all_is_said(host):
    """Status 69 and the package that holds one."""
    result = host.run("demo")
    assert result.returncode == 69
    assert "there is no python3 here" in result.stderr


def test_a_missing_venv_module_is_said_with_the_package_that_holds_it(host):
    """Debian's python3 comes without venv."""
    host.python("python3", "3.11", no_venv=True)
    result = host.run("demo")
    assert result.returncode == 69
    assert "Python 3.11 is here, but its venv module is missing" in result.stderr
    assert "apt install python3-venv" in result.stderr
    assert "python3.11-venv" in result.stderr


def test_a_failed_installation_shows_why_and_is_repeated_from_scratch(host):
    """pip's words are shown only when it fails; the next run trusts nothing that it left behind."""
    host.python("python3", "3.12", pip="echo 'no route to host'; exit 3")
    failed = host.run("demo")
    assert failed.returncode == 1
    assert "no route to host" in failed.stderr
    assert "the installation failed (pip's status 3)" in failed.stderr
    assert failed.stdout == ""
    host.python("python3", "3.12", pip="echo noise")
    host.journal()
    mended = host.run("demo")
    assert (mended.returncode, mended.stdout) == (0, "multiclaw demo\n")
    assert "noise" not in mended.stderr
    assert host.journal() == ["venv", f"pip {host.root}"]


def test_a_failed_addition_spoils_what_was_whole(host):
    """The packages for tests go where the others are: after a failure among them no job trusts the environment."""
    host.python("python3", "3.12", pip="case $last in *'[test]') exit 3 ;; esac")
    host.run("setup")
    assert host.run("test").returncode == 1
    host.journal()
    assert host.run("demo").returncode == 0
    assert host.journal() == ["venv", f"pip {host.root}"]


def test_an_interrupted_installation_is_made_anew(host):
    """SIGKILL in the middle of pip: the half-made environment is never used."""
    started = host.root / "started"
    host.python("python3", "3.12", pip=f"touch '{started}'; sleep 60")
    command, environment = host.command("setup")
    with subprocess.Popen(command, env=environment, start_new_session=True) as process:  # noqa: S603 - our own script
        end = time.monotonic() + 30
        while not started.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        os.killpg(process.pid, 9)
    host.python("python3", "3.12")
    host.journal()
    assert host.run("demo").returncode == 0
    assert host.journal() == ["venv", f"pip {host.root}"]


@pytest.mark.parametrize("damage", ["bin/python", "bin/pip"])
def test_a_broken_environment_is_made_anew(host, damage):
    """Its interpreter went away with an upgrade of the system, or its scripts belong to another place."""
    host.python("python3", "3.12")
    host.run("setup")
    host.journal()
    (host.root / ".venv" / damage).unlink()
    (host.root / "pyproject.toml").write_text("two")
    assert host.run("demo").returncode == 0
    assert host.journal() == ["venv", f"pip {host.root}"]


def test_a_moved_checkout_makes_its_environment_anew(host):
    """Scripts in an environment hold its path: those of a moved one would start another Python, or none."""
    host.python("python3", "3.12")
    host.run("setup")
    host.journal()
    host.root = host.root.rename(host.root.with_name("moved"))
    assert host.run("demo").returncode == 0
    assert host.journal() == ["venv", f"pip {host.root}"]


def test_two_first_runs_at_once_install_once(host):
    """The second waits for the first and then finds everything done."""
    host.python("python3", "3.12", pip="sleep 0.5")
    command, environment = host.command("setup")
    runs = [subprocess.Popen(command, env=environment) for _ in range(2)]  # noqa: S603 - our own script
    assert [run.wait(60) for run in runs] == [0, 0]
    assert host.journal() == ["venv", f"pip {host.root}"]


def test_a_folder_that_is_no_environment_is_never_deleted(host, tmp_path):
    """A slip in MULTICLAW_VENV does not cost anybody's files."""
    host.python("python3", "3.12")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("")
    command, environment = host.command("setup")
    environment["MULTICLAW_VENV"] = str(precious)
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    assert result.returncode == 2
    assert "it is left as it is" in result.stderr
    assert (precious / "file").exists()


def test_wrong_use_shows_the_jobs(host):
    """No job is help; an unknown one is status 2, and neither installs anything."""
    assert "./run demo" in host.run().stdout
    unknown = host.run("dmeo")
    assert unknown.returncode == 2
    assert "there is no job 'dmeo'" in unknown.stderr
    assert host.journal() == []
