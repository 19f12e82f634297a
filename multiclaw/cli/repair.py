"""`repair`: what can be saved of a damaged store, and a new store made of it."""

import json
import time
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from adapter.core.routing import Topology
from adapter.store.backups import newest_verified
from adapter.store.full_check import check_everything
from adapter.store.repairing import discard_repair, finish_repair, prepare_repair
from adapter.store.replacing import finish_replacement
from adapter.store.room import NoRoomError
from multiclaw.cli.exits import CONFIGURATION, FAILED, UNAVAILABLE, Exit
from multiclaw.cli.options import CONFIG_DEFAULT, AsJson, ConfigPath, load_config
from multiclaw.cli.progress import progress_bar
from shared.config import ConfigurationFault
from shared.database import Damage, SqliteError, StoreLock

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be lost; change nothing.")]
AcceptLoss = Annotated[bool, typer.Option("--accept-loss", help="Go on without what cannot be saved.")]


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command()(repair)


def repair(
    config: ConfigPath = CONFIG_DEFAULT,
    dry_run: DryRun = False,
    accept_loss: AcceptLoss = False,
    as_json: AsJson = False,
) -> None:
    """Repair the adapter's store, while the adapter is stopped: make a new one of what can be read and of the newest
    backup. The damaged files are kept beside it. What would be lost is told, and lost only with `--accept-loss`.

    The exit status is 0 for a store that is whole, or is now; 1 where something would be lost, or nothing can be saved;
    69 where the disk does not give the store, or has no room.
    """
    loaded = load_config(config)
    path, channels = loaded.adapter_store, Topology.of(loaded).members
    if not path.parent.exists():
        raise Exit(FAILED, f"there is no store at {path}; the adapter makes it when it starts")
    try:
        lock = StoreLock(path.parent)
    except ConfigurationFault as fault:
        raise Exit(FAILED, f"{fault}; an adapter repairs by itself what it can repair without loss") from fault
    try:
        document = _repair(path, loaded.backup_folder, channels, dry_run=dry_run, accept_loss=accept_loss)
    except ConfigurationFault as fault:
        raise Exit(CONFIGURATION, f"{path}: {fault}") from fault
    except Damage as damage:
        raise Exit(FAILED, f"{path} cannot be repaired: {damage}") from damage
    except (OSError, SqliteError, NoRoomError) as error:
        raise Exit(UNAVAILABLE, f"{path}: {error}; nothing was changed") from error
    finally:
        lock.release()
    _tell(document, as_json=as_json)
    raise typer.Exit(0 if document["whole"] else FAILED)


def _repair(
    path: Path, backups: Path, channels: Collection[str], *, dry_run: bool, accept_loss: bool
) -> dict[str, Any]:
    finish_replacement(path)  # of a repair that was killed
    discard_repair(path)
    with progress_bar() as progress:
        faults = check_everything(path, progress).faults if path.exists() else []
        if path.exists() and not faults:
            return {"store": str(path), "whole": True, "faults": [], "kept": None}
        now_us = time.time_ns() // 1_000
        prepared = prepare_repair(path, newest_verified(backups), now_us, progress, channels)
    document = {"store": str(path), "whole": False, "faults": faults, **prepared.document(), "kept": None}
    if dry_run or not (accept_loss or prepared.rebuilt.losses.nothing):
        discard_repair(path)
        return document
    return document | {"whole": True, "kept": str(finish_repair(path, prepared, now_us))}


def _tell(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(document, indent=2))
        return
    for fault in document["faults"]:
        print(f"damaged: {fault}")
    if "lossless" not in document:
        print(f"{document['store']}: whole, there is nothing to repair")
        return
    verb = "were" if document["whole"] else "would be"
    print(f"{document['messages']} messages {verb} saved, {document['from_backup']} of them from the backup")
    if document["redelivered"]:
        print(f"{document['redelivered']} deliveries {verb} put back into their queues, and the sidecars absorb them")
    for lost in document["lost"]:
        end = "on" if lost["to"] is None else f"to {lost['to']}"
        print(f"{verb} lost: {lost['channel']} from {lost['from']} {end}")
    for doubt in document["doubts"]:
        print(f"{verb} lost: {doubt}")
    if document["kept"] is not None:
        print(f"{document['store']}: repaired; the damaged files are in {document['kept']}. Start the adapter")
    elif document["lossless"]:
        print("nothing would be lost; repair it: multiclaw repair")
    else:
        print("nothing was changed; go on without it: multiclaw repair --accept-loss, or: multiclaw restore")
