"""`restore`: a backup in the place of the adapter's store, while the adapter is stopped."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from adapter.store.backups import list_backups
from adapter.store.restoring import RestorePlan, carry_out, plan_restore
from adapter.store.room import NoRoomError
from multiclaw.cli.exits import CONFIGURATION, FAILED, UNAVAILABLE, Exit
from multiclaw.cli.options import CONFIG_DEFAULT, AsJson, ConfigPath, load_config
from shared.config import Config, ConfigurationFault
from shared.database import Damage, SqliteError, StoreLock
from shared.times import iso

File = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The backup, as `multiclaw backup list` names it.")]
Newest = Annotated[bool, typer.Option("--newest", help="The newest backup that is whole.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command()(restore)


def restore(
    file: File = None,
    *,
    newest: Newest = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Put a backup in the place of the adapter's store. The adapter must be stopped; the present files are kept.

    No number is given twice: each channel goes on behind all that may have been given since. What was sent after the
    backup is lost, and every receiver is told so; what was settled after it is delivered again, and sidecars
    acknowledge what their agents have processed.
    """
    if (file is None) != newest:
        raise typer.BadParameter("name a backup, or say --newest")
    loaded = load_config(config)
    with _refusals(loaded), _locked(loaded):
        plan, passed = _chosen(loaded, file)
        if not as_json:
            _tell(plan, passed)
        if dry_run:
            kept = None
        else:
            _confirm(yes=yes)
            console = Console(stderr=True)
            kept = carry_out(
                loaded.adapter_store, plan, time.time_ns() // 1_000, lambda step: console.print(f"{step} …")
            )
    if as_json:
        print(json.dumps(_document(plan, passed, kept), indent=2))
    elif kept is not None:
        print(f"restored; the files of before are in {kept}\nnext: start the adapter")


def _chosen(config: Config, file: Path | None) -> tuple[RestorePlan, list[str]]:
    """The plan, and which newer backups are not whole."""
    if file is not None:
        return plan_restore(config.adapter_store, file), []
    passed: list[str] = []
    for backup in list_backups(config.backup_folder):
        try:
            return plan_restore(config.adapter_store, config.backup_folder / backup.name), passed
        except (Damage, SqliteError) as error:
            passed.append(f"{backup.name}: {error}")
    lines = [f"there is no backup in {config.backup_folder} that is whole", *passed]
    raise Exit(FAILED, "\n".join(lines))


def _tell(plan: RestorePlan, passed: list[str]) -> None:
    for one in passed:
        print(f"passed over, because it is damaged: {one}")
    state = plan.state
    print(f"{plan.backup}: the state of {iso(plan.as_of_us)}, up to message {state.last_message_id}")
    if plan.present is None:
        print("the present store cannot be read")
    elif plan.present.last_message_id > state.last_message_id:
        print(f"the present store has messages up to {plan.present.last_message_id}, the newest of "
              f"{iso(plan.present.accepted_at_us)}")  # fmt: skip
    lost = plan.seen - state.last_message_id
    print(f"messages that are known and will be lost: {lost}" if lost else "no message is known that will be lost")
    print(f"each channel passes over {plan.jump.by} numbers; the next message is {plan.end.messages_end}")
    if not plan.sure:
        print("nothing tells which numbers were given, so many are passed over")


def _say(step: str) -> None:
    Console(stderr=True).print(f"{step} …")


def _confirm(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise Exit(FAILED, "nothing was changed; to restore without being asked, add: --yes")
    if not typer.confirm("Put it in the place of the store?"):
        raise Exit(FAILED, "nothing was changed")


def _document(plan: RestorePlan, passed: list[str], kept: Path | None) -> dict[str, Any]:
    present = plan.present
    return {
        "backup": str(plan.backup),
        "as_of": iso(plan.as_of_us),
        "last_message": plan.state.last_message_id,
        "present_last_message": None if present is None else present.last_message_id,
        "present_newest_at": None if present is None else iso(present.accepted_at_us),
        "known_lost_messages": plan.seen - plan.state.last_message_id,
        "numbers_passed_over": plan.jump.by,
        "numbers_are_known": plan.sure,
        "next_message": plan.end.messages_end,
        "passed_over": passed,
        "restored": kept is not None,
        "kept": None if kept is None else str(kept),
    }


@contextmanager
def _locked(config: Config) -> Iterator[None]:
    """Beside a live adapter nothing is restored: its lock names its process."""
    lock = StoreLock(config.adapter_state)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _refusals(config: Config) -> Iterator[None]:
    try:
        yield
    except ConfigurationFault as fault:
        raise Exit(CONFIGURATION, f"nothing was changed: {fault}") from fault
    except FileNotFoundError as error:
        words = f"there is no file {error.filename}; see: multiclaw backup list"
        raise Exit(FAILED, words) from error
    except (Damage, NoRoomError) as error:
        raise Exit(FAILED, f"nothing was changed: {error}") from error
    except (OSError, SqliteError) as error:
        raise Exit(UNAVAILABLE, f"{config.adapter_store} was not restored: {error}; try again") from error
