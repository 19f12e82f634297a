"""The verb `demo`."""

import asyncio
import contextlib
import logging
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from multiclaw.cli.exits import FAILED, Exit
from multiclaw.cli.template import AGENTS_DEFAULT
from multiclaw.demo.census import Census, take
from multiclaw.demo.conversation import Conversation
from multiclaw.demo.corpus import Replay, read
from multiclaw.demo.narrator import Narrator
from multiclaw.demo.stage import stage


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command()(demo)


def demo(
    corpus: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Replay recorded runs: JSON lines of run, step, sender, to, kind, content."),
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="With --corpus: replay only the first N runs.")] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Play in this empty folder and leave it, to look around.")
    ] = None,
) -> None:
    """Start everything, play a conversation, kill the adapter in the middle, and take a census of every message.

    The exit status is 0 only when the census is clean: nothing lost, nothing applied twice, nothing changed, order
    kept.
    """
    logging.getLogger("multiclaw.client").setLevel(
        logging.ERROR
    )  # polls that fail while the adapter is away are the story
    narrator = Narrator(Console())
    script = Conversation(narrator) if corpus is None else Replay(read(corpus, AGENTS_DEFAULT, runs), narrator)
    began = time.monotonic()
    with _folder(keep) as folder:
        census = asyncio.run(_play(script, folder, narrator))
    narrator.census(census, time.monotonic() - began)
    if not census.clean:
        raise Exit(FAILED, "the census is not clean; run again with --keep DIR to look at the stores")


async def _play(script: Conversation | Replay, folder: Path, narrator: Narrator) -> Census:
    narrator.act("starting the adapter and a sidecar for each agent")
    async with stage(folder, script.react, narrator.say) as scene:
        await script.play(scene)
        narrator.act("asking the adapter about every send again, by its idempotency key")
        receipts = await scene.receipts()
        return take(scene.ledger.sent, receipts, scene.ledger.applied)


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="multiclaw-") as folder:
            yield Path(folder)
        return
    if keep.exists() and any(keep.iterdir()):
        raise Exit(FAILED, f"{keep} is not empty; name a folder that is, or does not exist yet")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.absolute()
