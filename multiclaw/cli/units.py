"""`install-units`: a deployment run by systemd. Running it again upgrades in place, and restarts nothing by itself."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Annotated, Final

import typer

import multiclaw
from multiclaw import units
from multiclaw.cli.exits import CONFIGURATION, FAILED, Exit
from multiclaw.cli.options import ConfigPath, load_config
from shared.config import Config
from shared.keys import key_path
from shared.names import GOVERNOR

_CONFIG_DEFAULT: Final = Path("/etc/multiclaw/multiclaw.toml")
_ROOT: Final = Path("/")


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command("install-units")(install_units)


def install_units(
    config: ConfigPath = _CONFIG_DEFAULT,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Remove the units; state and keys stay.")] = False,
    root: Annotated[
        Path, typer.Option(metavar="DIR", help="Write below DIR and run nothing, for an image or to look at.")
    ] = _ROOT,
) -> None:
    """Let systemd run the deployment: units, users, folders, and words for the journal's entries."""
    try:
        if uninstall:
            _uninstall(root)
        else:
            _install(load_config(config), config.absolute().parent, root)
    except OSError as error:
        hint = "; try it as root" if isinstance(error, PermissionError) else ""
        raise Exit(FAILED, f"cannot change {error.filename}: {error.strerror}{hint}") from error


def _install(config: Config, folder: Path, root: Path) -> None:
    programs = Path(sys.executable).parent
    used = (programs, Path(sys.base_prefix), Path(multiclaw.__file__).parent)
    obstacles = [*units.obstacles(config, folder, used), *_closed(config, folder), *_missing_keys(config, folder)]
    if obstacles:
        raise Exit(CONFIGURATION, "\nmulticlaw: ".join(obstacles))
    plan = units.plan(config, folder, programs, _templates())
    changed = [*_write(plan, root), *_remove_stale(plan, root)]
    for line in changed or ["nothing was to be changed"]:
        print(line)
    if root == _ROOT:
        _run("systemd-sysusers", f"/{units.SYSUSERS}")
        _run("systemd-tmpfiles", "--create", f"/{units.TMPFILES}")
        _make_backup_folder(units.backup_folder(config))
        _reload()
        print("next: systemctl enable --now multiclaw.target")
        print("after an upgrade, which leaves the sockets open: systemctl try-restart 'multiclaw-*.service'")
        for name in config.orchestrators:
            if any(f"multiclaw-sidecar@{name}.socket.d" in line for line in changed):
                print(f"for the watcher to reach {name}, once: systemctl try-restart multiclaw-sidecar@{name}.socket")


def _make_backup_folder(folder: Path | None) -> None:
    """Once, and not with each boot: on a disk that is not mounted then it would be made on another."""
    if folder is not None and not folder.exists():
        _run("install", "-d", "-m", "0700", "-o", units.ADAPTER_USER, "-g", units.ADAPTER_USER, str(folder))
        print(f"made {folder}")


def _uninstall(root: Path) -> None:
    if root == _ROOT and (root / units.WANTED).exists():
        _run("systemctl", "disable", "--now", "multiclaw.target")
    files = [root / path for path in units.removal(_templates())]
    files += sorted((root / units.UNITS).glob(units.WATCH_DROP_INS))
    links = sorted((root / units.WANTED).glob("*"))
    for path in (*links, *files):
        if path.is_symlink() or path.exists():
            path.unlink()
            print(f"removed {path}")
    for folder in {root / units.WANTED, *(path.parent for path in files if path.parent.suffix == ".d")}:
        with contextlib.suppress(OSError):  # not there, or with something in it that is not ours
            folder.rmdir()
    if root == _ROOT:
        _reload()
        print(f"state, configuration and users stay: {units.STATE}, {_CONFIG_DEFAULT.parent}")


def _templates() -> dict[str, str]:
    folder = resources.files(multiclaw).joinpath("unit_files")
    return {
        file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.startswith("multiclaw")
    }


def _closed(config: Config, folder: Path) -> Iterator[str]:
    """What services of other users must read and could not."""
    readable = [(folder, 0o5), (folder / "multiclaw.toml", 0o4)]
    if config.paths.contracts.exists():
        readable.append((config.paths.contracts, 0o5))
    for path, bits in readable:
        if path.stat().st_mode & bits != bits:
            yield f"{path} is closed to the services' users; open it: chmod o+{'rx' if bits & 1 else 'r'} {path}"


def _missing_keys(config: Config, folder: Path) -> Iterator[str]:
    for signer in (*config.agents, GOVERNOR):
        if not key_path(config.paths.keys, signer).exists():
            yield f"there is no key for {signer!r}; make it with: multiclaw init --dir {folder}"


def _write(plan: units.Plan, root: Path) -> Iterator[str]:
    for relative, text in plan.files.items():
        path = root / relative
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f".{path.name}.{os.getpid()}")
            draft.write_text(text, encoding="utf-8")
            draft.chmod(0o644)
            draft.replace(path)
            yield f"wrote {path}"
    for relative, target in plan.links.items():
        path = root / relative
        if not path.is_symlink() or str(path.readlink()) != target:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.symlink_to(target)
            yield f"linked {path}"


def _remove_stale(plan: units.Plan, root: Path) -> Iterator[str]:
    """Remove what an earlier topology wanted; agents that somebody enabled are left alone."""
    for path in sorted((root / units.WANTED).glob("multiclaw-sidecar@*")):
        if units.WANTED / path.name not in plan.links:
            path.unlink()
            yield f"removed {path}; if it runs: systemctl stop {path.name}"
    for path in sorted((root / units.UNITS).glob(units.WATCH_DROP_INS)):
        if PurePosixPath(path.relative_to(root)) not in plan.files:
            path.unlink()
            path.parent.rmdir()
            yield f"removed {path}; then: systemctl restart {path.parent.name.removesuffix('.d')}"
    backups = root / units.BACKUPS
    if units.BACKUPS not in plan.files and backups.exists():
        backups.unlink()
        yield f"removed {backups}"


def _reload() -> None:
    _run("journalctl", "--update-catalog")
    _run("systemctl", "daemon-reload")


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True)  # noqa: S603 - the system's own tools
    except FileNotFoundError as error:
        raise Exit(FAILED, f"there is no {command[0]} here; without systemd, use `multiclaw up`") from error
    except subprocess.CalledProcessError as error:
        raise Exit(
            FAILED, f"{' '.join(command)} ended with {error.returncode}; mend that, then run this again"
        ) from error
