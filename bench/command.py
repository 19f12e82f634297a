"""The verb `bench`."""

import asyncio
import json
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.console import Console

from bench.deployment import CannotRun
from bench.peers import PEERS
from bench.report import document, print_table
from bench.runner import Plan, Runner
from bench.ways import WAYS
from bench.workloads import WORKLOADS, Workload
from multiclaw.cli.exits import FAILED, INTERRUPTED, UNAVAILABLE, Exit
from multiclaw.cli.options import AsJson

_BY_NAME: Final = {workload.name: workload for workload in WORKLOADS}


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command()(bench)


def bench(  # noqa: PLR0913, PLR0917 - an argument for each option of the verb
    workload: Annotated[str, typer.Option(metavar="W1,W2", help="Which workloads.")] = ",".join(_BY_NAME),
    via: Annotated[str, typer.Option(metavar="WAY,WAY", help="Which ways in.")] = ",".join(WAYS),
    runs: Annotated[int, typer.Option(min=1, help="Repeat so often, and give medians.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.1, help="A run sends for so long at most.")] = 30.0,
    messages: Annotated[int | None, typer.Option(min=1, help="Messages of a run of W1 to W5.")] = None,
    stored: Annotated[
        int | None, typer.Option(min=1, help="Messages stored for W6 to W11; the long forms: 100000, W9 1000000.")
    ] = None,
    against: Annotated[
        str, typer.Option(metavar="PEER,PEER", help=f"Measure W1 to W6 on these as well: {', '.join(PEERS)}.")
    ] = "",
    directory: Annotated[Path | None, typer.Option("--dir", metavar="DIR", help="Where stores are made.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One short run of each: are the counts right?")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a deployment of its own in a temporary folder, and count that nothing was lost.

    Ends with 1 when a send was refused, or when what was received is not what was sent.
    """
    chosen = [_BY_NAME[name] for name in _choose(workload, list(_BY_NAME), "--workload")]
    plan = Plan(
        workloads=[(one, _messages_of(one, stored if one.own_deployment else messages, quick)) for one in chosen],
        ways=_choose(via, list(WAYS), "--via"),
        runs=1 if quick else runs,
        seconds=seconds,
        peers=_choose(against, PEERS, "--against") if against else (),
        folder=(directory or Path(tempfile.gettempdir())).absolute(),
    )
    if not any(way in one.ways for way in plan.ways for one in chosen):
        names = ", ".join(sorted({way for one in chosen for way in one.ways}))
        raise typer.BadParameter(f"{workload} is measured via {names}", param_hint="--via")
    errors = Console(stderr=True, highlight=False)
    runner = Runner(plan, lambda line: errors.print(line, style="dim", markup=False))
    _carry_out(runner)
    if as_json:
        print(json.dumps(document(runner.results, runner.facts), indent=2))
    else:
        print_table(runner.results, runner.facts)
    if any(result.faults for result in runner.results):
        raise typer.Exit(FAILED)


def _choose(text: str, known: Sequence[str], option: str) -> list[str]:
    """The names of a list with commas, in the order of `known`."""
    names = {name.strip() for name in text.split(",")}
    unknown = names - set(known)
    if unknown:
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: choose of {', '.join(known)}", param_hint=option)
    return [name for name in known if name in names]


def _messages_of(workload: Workload, given: int | None, quick: bool) -> int:
    return given or (workload.messages_quick if quick else workload.messages_default)


def _carry_out(runner: Runner) -> None:
    try:
        uvloop.run(_until_done_or_told(runner))
    except CannotRun as fault:
        raise Exit(UNAVAILABLE, str(fault)) from fault
    except asyncio.CancelledError:
        raise Exit(INTERRUPTED, "interrupted; nothing was left behind") from None


async def _until_done_or_told(runner: Runner) -> None:
    """SIGTERM ends as Ctrl-C does: with the processes stopped and the folder removed."""
    running = asyncio.ensure_future(runner.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await running
