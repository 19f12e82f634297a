"""`backup`: a copy of the adapter's store now, and the list of those there are."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console
from rich.progress import Progress as Bar

from adapter.core.backup_plan import Backup
from adapter.store.backups import back_up_stopped, export, list_backups, owned_like
from adapter.store.room import NoRoomError
from multiclaw.cli.exits import CONFIGURATION, FAILED, UNAVAILABLE, Exit
from multiclaw.cli.governing import governor
from multiclaw.cli.options import CONFIG_DEFAULT, AsJson, ConfigPath, load_config
from shared.backups import BACKUPS_PATH
from shared.config import Config, ConfigurationFault
from shared.database import Damage, SqliteError, StoreLock, verify_backup
from shared.link import ROOT
from shared.times import iso

_LOOK_SECONDS: Final = 0.2
_PATH: Final = BACKUPS_PATH.removeprefix(ROOT)

To = Annotated[
    Path | None, typer.Option("--to", metavar="FILE", help="Also copy it to this file, which must not be there.")
]
Verify = Annotated[bool, typer.Option("--verify", help="Read every page of each again; takes a while.")]
Progress = Callable[[int, int], None]


class _Made(NamedTuple):
    """What the verb tells of."""

    path: Path
    made_at: str
    last_message: int
    bytes: int
    seconds: float


def register(application: typer.Typer) -> None:
    """Add the verbs of this file."""
    group = typer.Typer(invoke_without_command=True, callback=backup)
    group.command("list")(show_list)
    application.add_typer(group, name="backup")


def backup(context: typer.Context, to: To = None, config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """Copy the adapter's store and verify the copy: by the adapter, beside its work, or, where it is stopped, at once.

    The copy is made in the folder of backups, and counts as one of those that are kept.
    """
    if context.invoked_subcommand is not None:
        return
    loaded = load_config(config)
    if not loaded.adapter_state.exists():  # the lock would make the folder
        raise Exit(FAILED, f"there is no store at {loaded.adapter_store}; the adapter makes it when it starts")
    if to is not None and to.exists():
        raise Exit(FAILED, f"there is a file {to} already; nothing was copied")
    with _refusals(loaded.adapter_store), _bar() as progress:
        made = _make(config, loaded, progress)
        if to is not None:
            export(made.path, to)
            made = made._replace(path=to)
    if as_json:
        print(json.dumps(_document(made._asdict())))
    else:
        print(f"{made.path}: {made.bytes} bytes, up to message {made.last_message}, verified, {made.seconds:.1f} s")


def show_list(verify: Verify = False, config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """List the backups there are, the newest first. Each was verified when it was made.

    With --verify the exit status is 1 where one of them is damaged.
    """
    folder = load_config(config).backup_folder
    try:
        found = [_listed(folder, one, verify=verify) for one in list_backups(folder)]
    except OSError as error:
        raise Exit(UNAVAILABLE, f"{folder} cannot be read: {error.strerror}") from error
    if as_json:
        print(json.dumps({"folder": str(folder), "backups": [_document(one) for one in found]}, indent=2))
    else:
        for one in found:
            state = f"damaged: {one['fault']}" if one["fault"] else f"verified {one['verified']}"
            print(f"{one['path']}: {one['bytes']} bytes, up to message {one['last_message']}, {state}")
        if not found:
            print(f"there are no backups in {folder}; make one: multiclaw backup")
    raise typer.Exit(FAILED if any(one["fault"] for one in found) else 0)


def _make(config_path: Path, config: Config, progress: Progress) -> _Made:
    try:
        lock = StoreLock(config.adapter_state)
    except ConfigurationFault:  # the adapter runs
        return _ask_adapter(config_path, config, progress)
    try:
        with owned_like(config.adapter_store, config.backup_folder):
            begun = time.time()
            made = back_up_stopped(config.adapter_store, config.backup_folder, int(begun * 1_000_000), progress)
        path = config.backup_folder / made.name
        return _Made(path, iso(made.made_at_us), made.last_message_id, path.stat().st_size, time.time() - begun)
    finally:
        lock.release()


def _ask_adapter(config_path: Path, config: Config, progress: Progress) -> _Made:
    human = governor(config_path, config)
    before = state = human.post(_PATH)
    while state["running"] is not None or state["attempts"] == before["attempts"]:
        if state["running"] is not None:
            progress(state["running"]["bytes"], state["running"]["of"])
        time.sleep(_LOOK_SECONDS)
        state = human.get(_PATH)
    if state["failure"] is not None:
        raise Exit(FAILED, f"no backup was made: {state['failure']}")
    return _Made(
        Path(state["file"]), state["last_success"], state["last_message"], state["bytes"], state["seconds"] or 0.0
    )


def _listed(folder: Path, backup: Backup, *, verify: bool) -> dict[str, Any]:
    path = folder / backup.name
    fault = _fault(path) if verify else None
    return {
        "path": path,
        "made_at": iso(backup.made_at_us),
        "last_message": backup.last_message_id,
        "bytes": path.stat().st_size,
        "verified": None if fault else "now" if verify else "when it was made",
        "fault": fault,
    }


def _fault(path: Path) -> str | None:
    try:
        verify_backup(path)
    except (Damage, ConfigurationFault, SqliteError) as error:
        return str(error)
    return None


def _document(made: dict[str, Any]) -> dict[str, Any]:
    return {"file" if name == "path" else name: str(v) if name == "path" else v for name, v in made.items()}


@contextmanager
def _refusals(store: Path) -> Iterator[None]:
    """What keeps a backup from being made ends the verb, with what to do."""
    try:
        yield
    except ConfigurationFault as fault:
        raise Exit(CONFIGURATION, str(fault)) from fault
    except (NoRoomError, FileNotFoundError) as error:
        raise Exit(FAILED, f"no backup was made: {error}") from error
    except Damage as damage:
        raise Exit(FAILED, f"no backup was made: {store}: {damage}; see: multiclaw check") from damage
    except (OSError, SqliteError) as error:
        raise Exit(UNAVAILABLE, f"no backup was made: {error}") from error


@contextmanager
def _bar() -> Iterator[Progress]:
    """A bar on standard error, where that is a terminal."""
    with Bar(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("copying")
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
