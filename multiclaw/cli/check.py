"""`check`: the whole check of the adapter's store by hand."""

import json
from pathlib import Path
from typing import Final

import typer

from adapter.store.full_check import Findings, check_everything, check_pages
from multiclaw.cli.exits import CONFIGURATION, FAILED, UNAVAILABLE, Exit
from multiclaw.cli.options import CONFIG_DEFAULT, AsJson, ConfigPath, load_config
from multiclaw.cli.progress import progress_bar
from shared.config import ConfigurationFault
from shared.database import SqliteError, StoreLock

_EVERYTHING: Final = "everything"
_PAGES: Final = "pages"


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command()(check)


def check(config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """Check the adapter's store, and change nothing of it. While the adapter is stopped: every page, the log, every
    index, and every message. Beside an adapter that runs: every page.

    The exit status is 0 for a store that is whole, 1 for one that is damaged or not there, 69 where the disk does not
    give it, which proves nothing.
    """
    path = load_config(config).adapter_store
    if not path.parent.exists():
        raise Exit(FAILED, f"there is no store at {path}; the adapter makes it when it starts")
    try:
        scope, findings = _check(path)
    except FileNotFoundError as error:
        raise Exit(FAILED, f"there is no store at {path}; the adapter makes it when it starts") from error
    except ConfigurationFault as fault:
        raise Exit(CONFIGURATION, f"{path}: {fault}") from fault
    except (OSError, SqliteError) as error:
        raise Exit(UNAVAILABLE, f"{path} cannot be read: {error}; that proves nothing of it, try again") from error
    _tell(path, scope, findings, as_json=as_json)
    raise typer.Exit(FAILED if findings.faults else 0)


def _check(path: Path) -> tuple[str, Findings]:
    try:
        lock = StoreLock(path.parent)
    except ConfigurationFault:  # the adapter runs
        with progress_bar() as progress:
            return _PAGES, check_pages(path, progress)
    try:
        with progress_bar() as progress:
            return _EVERYTHING, check_everything(path, progress)
    finally:
        lock.release()


def _tell(path: Path, scope: str, findings: Findings, *, as_json: bool) -> None:
    if as_json:
        document = {
            "store": str(path),
            "whole": not findings.faults,
            "checked": scope,
            "page_checksums": findings.checksums,
            "pages": findings.pages,
            "messages": findings.messages,
            "faults": findings.faults,
        }
        print(json.dumps(document, indent=2))
        return
    for fault in findings.faults:
        print(f"damaged: {fault}")
    looked_at = f"{findings.pages} pages" + ("" if findings.messages is None else f", {findings.messages} messages")
    print(f"{path}: {'damaged' if findings.faults else 'whole'} ({looked_at})")
    if findings.checksums != "on":
        print(f"page checksums are {findings.checksums}")
    if scope == _PAGES:
        print("the adapter runs, so only the pages of the file were checked; stop it to check everything")
