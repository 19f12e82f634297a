"""Replay jobs at a shell: started and watched, listed, cancelled."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from multiclaw.cli.acting import act_as
from multiclaw.cli.exits import FAILED, INTERRUPTED, Exit
from multiclaw.cli.options import CONFIG_DEFAULT, AsAgent, AsJson, ConfigPath
from multiclaw.client import Agent, Unavailable
from shared.dead_letters import ITEMS_MAX

_LOOK_SECONDS: Final = 0.5
_RUNNING: Final = "running"


def start(config: Path, as_agent: str, asked: dict[str, Any], *, detach: bool, as_json: bool) -> None:
    """Start a job of what is asked, and watch it to its end; Ctrl-C cancels it."""

    async def act(agent: Agent) -> dict[str, Any]:
        job = await agent.dead_letters.start_replay(**asked)
        return job if detach else await _watched(agent, job)

    job = act_as(config, as_agent, act)
    print(json.dumps(job) if as_json else sentence(job))
    if job["state"] == "cancelled":
        raise Exit(INTERRUPTED, "cancelled; what was replayed stays so")
    if job["refused"]:
        raise Exit(FAILED, f"{job['refused']} were refused and stay dead; see: multiclaw dead-letters list")


async def preview(agent: Agent, asked: dict[str, Any]) -> dict[str, Any]:
    """What a job would touch, as the answer to one dry run: whole, and all as of one moment."""
    limit, cut_off, after = asked["limit"], asked["cut_off"], None
    filters = {name: asked[name] for name in ("recipient", "reason")}
    outcomes: list[dict[str, Any]] = []
    while True:
        most = ITEMS_MAX if limit is None else min(ITEMS_MAX, limit - len(outcomes))
        page = await agent.dead_letters.replay(**filters, cut_off=cut_off, limit=most, after=after, dry_run=True)
        outcomes += page["outcomes"]
        cut_off, after = page["cut_off"], page["next"]
        if after is None or len(outcomes) == limit:
            return page | {"matched": len(outcomes), "outcomes": outcomes, "next": None}


def replays(as_agent: AsAgent = "orchestrator", config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """List the replay jobs that run, and those that ended not long ago."""

    async def act(agent: Agent) -> list[dict[str, Any]]:
        return await agent.dead_letters.replays()

    found = act_as(config, as_agent, act)
    if as_json:
        print(json.dumps({"replays": found}))
        return
    for job in found:
        print(sentence(job))


def cancel(
    job_id: Annotated[str, typer.Argument(metavar="ID", help="As replays names it.")],
    as_agent: AsAgent = "orchestrator",
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """End a replay job where it is: what is replayed stays so, the rest is left alone."""

    async def act(agent: Agent) -> dict[str, Any]:
        return await agent.dead_letters.cancel_replay(job_id)

    job = act_as(config, as_agent, act)
    print(json.dumps(job) if as_json else sentence(job))


def sentence(job: dict[str, Any]) -> str:
    """What a job has done, in words."""
    done = "{id} {state}: {replayed} replayed, {refused} refused".format(**job)
    left = job["matched"] - job["replayed"] - job["refused"]
    if job["state"] == "cancelled":
        return f"{done}; the rest, {left} at most, was left alone"
    if job["state"] != _RUNNING:
        return done
    waiting = f"; no room yet in the queue of {', '.join(job['waiting'])}" if job["waiting"] else ""
    return f"{done}, {job['remaining']} to go{waiting}"


async def _watched(agent: Agent, job: dict[str, Any]) -> dict[str, Any]:
    """The job once it has ended. It goes on by itself while nobody can be asked about it."""
    try:
        with _progress() as status:
            while job["state"] == _RUNNING:
                status(sentence(job))
                await asyncio.sleep(_LOOK_SECONDS)
                try:
                    job = await agent.dead_letters.read_replay(job["id"])
                except Unavailable as error:
                    status(f"{sentence(job)} ({error.type})")
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        return await agent.dead_letters.cancel_replay(job["id"])
    return job


@contextmanager
def _progress() -> Iterator[Any]:
    """A line that changes in place on a terminal, and nothing anywhere else."""
    console = Console(stderr=True)
    with console.status("", spinner="dots") as status:
        yield lambda text: status.update(text) if console.is_terminal else None
