"""`scheduled`: messages that wait for their time, seen and cancelled."""

import json
from typing import Annotated, Any

import typer

from multiclaw.cli.acting import act_as, printable
from multiclaw.cli.options import CONFIG_DEFAULT, AsAgent, AsJson, ConfigPath
from multiclaw.client import Agent
from shared.scheduled import ITEMS_DEFAULT, ITEMS_MAX

Sender = Annotated[str | None, typer.Option(metavar="AGENT", help="Whose, if you are the orchestrator.")]


def register(application: typer.Typer) -> None:
    """Add the verbs of this file."""
    group = typer.Typer(no_args_is_help=True, help="Messages that wait for their time: see them, cancel them.")
    group.command("list")(show_list)
    group.command()(cancel)
    application.add_typer(group, name="scheduled")


def show_list(
    *,
    as_agent: AsAgent,
    sender: Sender = None,
    limit: Annotated[int, typer.Option(min=1, max=ITEMS_MAX, help="How many at most.")] = ITEMS_DEFAULT,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where an earlier page ended.")] = None,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List what waits for its time and what failed at it: your own; for the orchestrator, everybody's."""

    async def act(agent: Agent) -> dict[str, Any]:
        return await agent.scheduled(sender=sender, limit=limit, after=after)

    page = act_as(config, as_agent, act)
    if as_json:
        print(json.dumps(page))
        return
    for one in page["scheduled"]:
        print(_line(one))
    if page["next"] is not None:
        print(f"there are more; to go on, add: --after {page['next']}")


def cancel(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its idempotency key, as list shows it.")],
    *,
    as_agent: AsAgent,
    sender: Sender = None,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Cancel a scheduled message; also how to be done with one that failed."""

    async def act(agent: Agent) -> dict[str, Any]:
        return await agent.cancel_scheduled(key, sender=sender)

    cancelled = act_as(config, as_agent, act)
    print(json.dumps(cancelled) if as_json else f"cancelled: {cancelled['idempotency_key']}")


def _line(one: dict[str, Any]) -> str:
    what = f"{one['deliver_at']} {one['sender']} to {one['to']} {one['type']}"
    why = "" if one["reason"] is None else f": {one['reason']}: {one['detail']}"
    return printable(f"{one['idempotency_key']} {one['status']} {what}{why}")
