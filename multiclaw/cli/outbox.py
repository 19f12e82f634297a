"""`outbox`: an agent's sends that wait in its sidecar, or were refused after that, and what to do about them."""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Any

import typer

from multiclaw.cli.acting import act_as, printable
from multiclaw.cli.exits import FAILED, Exit
from multiclaw.cli.options import CONFIG_DEFAULT, AsAgent, AsJson, ConfigPath
from multiclaw.client import Agent, SidecarError, Unavailable
from shared.outbox import ITEMS_DEFAULT, ITEMS_MAX

Key = Annotated[str, typer.Argument(metavar="KEY", help="Its idempotency key, as list shows it.")]
Keys = Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", help="Idempotency keys, as list shows them.")]
Limit = Annotated[int, typer.Option(min=1, max=ITEMS_MAX, help="How many at most.")]
After = Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where an earlier page ended.")]
Everything = Annotated[bool, typer.Option("--all", help="All refused ones.")]


def register(application: typer.Typer) -> None:
    """Add the verbs of this file."""
    group = typer.Typer(no_args_is_help=True, help="Sends that wait in a sidecar, or were refused after it.")
    group.command("list")(show_list)
    for verb in (show, resend, drop):
        group.command()(verb)
    application.add_typer(group, name="outbox")


def show_list(
    *,
    as_agent: AsAgent,
    dead: Annotated[bool, typer.Option("--dead", help="Those that the adapter refused for good.")] = False,
    limit: Limit = ITEMS_DEFAULT,
    after: After = None,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List what waits for the adapter, in the order in which it leaves; with --dead, what was refused."""

    async def act(agent: Agent) -> dict[str, Any]:
        page = agent.outbox.dead if dead else agent.outbox.waiting
        return await page(limit=limit, after=after)

    page = act_as(config, as_agent, act)
    if as_json:
        print(json.dumps(page))
        return
    for one in page["dead" if dead else "waiting"]:
        print(_line(one))
    print(_total(page, dead=dead))
    if page["next"] is not None:
        print(f"there are more; to go on, add: --after {page['next']}")


def show(key: Key, *, as_agent: AsAgent, config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """Show one in full, with its message."""

    async def act(agent: Agent) -> dict[str, Any]:
        return await agent.outbox.read(key)

    one = act_as(config, as_agent, act)
    if as_json:
        print(json.dumps(one))
        return
    print(_line(one))
    print(printable(json.dumps(one["envelope"], ensure_ascii=False)))


def resend(
    keys: Keys = None,
    *,
    as_agent: AsAgent,
    everything: Everything = False,
    under_new_key: Annotated[
        bool, typer.Option("--new-key", help="As another message, whatever became of the old one.")
    ] = False,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Put refused sends behind all that wait, to be tried again."""
    _check_choice(keys, everything=everything)

    async def act(agent: Agent) -> list[dict[str, Any]]:
        found = await _refused(agent) if everything else keys or []
        return await _each(found, lambda key: agent.outbox.resend(key, under_new_key=under_new_key))

    _tell(act_as(config, as_agent, act), as_json=as_json)


def drop(
    keys: Keys = None,
    *,
    as_agent: AsAgent,
    dead: Annotated[bool, typer.Option("--dead", help="With --all: the refused ones, which is all it takes.")] = False,
    everything: Everything = False,
    yes: Annotated[bool, typer.Option("--yes", help="I mean it: what is dropped is gone.")] = False,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Throw sends away, waiting or refused ones; what is being sent just then is left alone."""
    _check_choice(keys, everything=everything)
    if everything and not dead:
        raise typer.BadParameter("--all takes the refused ones only: add --dead")
    if not yes:
        raise typer.BadParameter("what is dropped is gone; look at it with show, and add --yes")

    async def act(agent: Agent) -> list[dict[str, Any]]:
        found = await _refused(agent) if everything else keys or []
        return await _each(found, agent.outbox.drop)

    _tell(act_as(config, as_agent, act), as_json=as_json)


def _check_choice(keys: Sequence[str] | None, *, everything: bool) -> None:
    if bool(keys) == everything:
        raise typer.BadParameter("name keys, or say --all")


async def _refused(agent: Agent) -> list[str]:
    """The keys of all that are refused now."""
    keys: list[str] = []
    after: str | None = None
    while True:
        page = await agent.outbox.dead(limit=ITEMS_MAX, after=after)
        keys += [one["idempotency_key"] for one in page["dead"]]
        after = page["next"]
        if after is None:
            return keys


async def _each(keys: Iterable[str], act: Callable[[str], Awaitable[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What became of each. The refusal of one is no reason to leave the others; a full outbox, or none, is."""
    outcomes: list[dict[str, Any]] = []
    for key in keys:
        try:
            outcomes.append(await act(key))
        except SidecarError as error:
            outcomes.append({"idempotency_key": key, "status": "refused", "problem": _problem(error)})
            if isinstance(error, Unavailable):
                break
    return outcomes


def _problem(error: SidecarError) -> dict[str, Any]:
    return {**error.document, "type": error.type, "detail": error.detail}


def _tell(outcomes: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"outcomes": outcomes}))
    else:
        for outcome in outcomes:
            place = f", position {outcome['outbox_position']}" if "outbox_position" in outcome else ""
            why = f": {outcome['problem']['detail']}" if "problem" in outcome else ""
            print(printable(f"{outcome['idempotency_key']} {outcome['status']}{place}{why}"))
    refused = [outcome for outcome in outcomes if outcome["status"] == "refused"]
    if refused:
        raise Exit(FAILED, f"{len(refused)} of {len(outcomes)} were refused")


def _line(one: dict[str, Any]) -> str:
    what = f"{one['idempotency_key']} to {one['to']} {one['type']} {one['priority']}, {one['bytes']} bytes"
    if one["status"] == "dead":
        problem = one["problem"] or {"type": "refused", "detail": "without a reason"}
        return printable(f"{what}, refused at {one['refused_at']}: {problem['type']}: {problem['detail']}")
    moving = ", being sent" if one["status"] == "in-flight" else ""
    return printable(f"{one['position']} {what}, for {one['age_seconds']:.0f} s since {one['queued_at']}{moving}")


def _total(page: dict[str, Any], *, dead: bool) -> str:
    if dead:
        return f"{page['count']} refused; the outbox stops at {page['dead_max']}"
    stopped = "; STOPPED: decide about the refused ones (list --dead)" if page["stopped"] else ""
    kept = page["critical_reserve"]
    return f"{page['depth']} of {page['outbox_max']} places taken, the last {kept} for critical messages{stopped}"
