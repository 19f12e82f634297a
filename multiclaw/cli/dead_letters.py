"""`dead-letters`: what died, and what to do about it, as the orchestrator."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from multiclaw.cli import replay_jobs
from multiclaw.cli.acting import act_as, printable
from multiclaw.cli.exits import FAILED, Exit
from multiclaw.cli.options import CONFIG_DEFAULT, AsAgent, AsJson, ConfigPath
from multiclaw.cli.places import Place, item_at
from multiclaw.cli.resending import resend
from multiclaw.client import Agent
from shared.dead_letters import ITEMS_DEFAULT, ITEMS_MAX
from shared.replays import RATE_MAX

_ORCHESTRATOR = "orchestrator"


class Reason(StrEnum):
    """Why deliveries die."""

    MAX_ATTEMPTS = "max-attempts"
    REFUSED = "refused"
    EXPIRED = "expired"
    OVERFLOW = "overflow"


Recipient = Annotated[str | None, typer.Option(metavar="AGENT", help="Only those for this agent.")]
Why = Annotated[Reason | None, typer.Option("--reason", help="Only those that died for this.")]
Before = Annotated[str | None, typer.Option(metavar="TIME", help="Only those that died before this RFC 3339 time.")]
Limit = Annotated[int, typer.Option(min=1, max=ITEMS_MAX, help="How many at most.")]
_LIMIT_HELP = f"How many at most: {ITEMS_DEFAULT} where left out; with --rate, all."
_RATE_HELP = "By a job, so many a second; 0 is the highest, 1000."
After = Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on where an earlier page ended.")]


def register(application: typer.Typer) -> None:
    """Add the verbs of this file."""
    group = typer.Typer(no_args_is_help=True, help="Deliveries that died: see them, replay, resend or resolve them.")
    for verb in (show, replay, replay_jobs.replays, replay_jobs.cancel, resend, resolve, groups):
        group.command()(verb)
    group.command("list")(show_list)
    application.add_typer(group, name="dead-letters")


def show_list(  # noqa: PLR0913 - one parameter for each option
    *,
    as_agent: AsAgent = _ORCHESTRATOR,
    recipient: Recipient = None,
    reason: Why = None,
    before: Before = None,
    limit: Limit = ITEMS_DEFAULT,
    after: After = None,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List those that nobody has dealt with, in the order of their messages."""

    async def act(agent: Agent) -> dict[str, Any]:
        return await agent.dead_letters.page(
            recipient=recipient, reason=reason, before=before, limit=limit, after=after
        )

    page = act_as(config, as_agent, act)
    if as_json:
        print(json.dumps(page))
        return
    for letter in page["dead_letters"]:
        print(_line(letter))
    if page["next"] is not None:
        print(f"there are more; to go on, add: --after {page['next']}")


def groups(as_agent: AsAgent = _ORCHESTRATOR, config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """Count them by agent and reason."""

    async def act(agent: Agent) -> list[dict[str, Any]]:
        return await agent.dead_letters.groups()

    found = act_as(config, as_agent, act)
    if as_json:
        print(json.dumps({"groups": found}))
        return
    for group in found:
        print("{recipient} {reason}: {count}, from {oldest} to {newest}".format(**group))


def show(
    place: Place, as_agent: AsAgent = _ORCHESTRATOR, config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False
) -> None:
    """Show one in full: its message, and each time that it died."""
    item = item_at(place)

    async def act(agent: Agent) -> dict[str, Any]:
        return await agent.dead_letters.read(*item)

    letter = act_as(config, as_agent, act)
    if as_json:
        print(json.dumps(letter))
        return
    print(_line(letter))
    if letter["replaced_by"]:
        print("  replaced by {channel}/{channel_sequence_id}".format(**letter["replaced_by"]))
    for cycle in letter["history"]:
        print(printable("  {died_at} {reason} after {handovers} hand-overs: {detail}".format(**cycle)))
    print(printable(json.dumps(letter["envelope"], ensure_ascii=False)))


def replay(  # noqa: PLR0913 - one parameter for each option
    places: Annotated[list[str] | None, typer.Argument(metavar="[AGENT/CHANNEL/SEQUENCE]...")] = None,
    *,
    as_agent: AsAgent = _ORCHESTRATOR,
    recipient: Recipient = None,
    reason: Why = None,
    before: Before = None,
    everything: Annotated[bool, typer.Option("--all", help="With no filter at all.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help=_LIMIT_HELP)] = None,
    after: After = None,
    rate: Annotated[float | None, typer.Option(min=0, max=RATE_MAX, metavar="PER_SECOND", help=_RATE_HELP)] = None,
    detach: Annotated[bool, typer.Option("--detach", help="With --rate: do not watch it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell which.")] = False,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Have them tried again: those that are named, or those that match, in the order of their messages.

    At once and as many as one request takes; or, with --rate, all of them, by a job that is watched to its end.
    """
    filtered = recipient is not None or reason is not None or before is not None or after is not None
    if [bool(places), filtered, everything].count(True) != 1:
        raise typer.BadParameter("name dead letters, or filter them, or say --all")
    if detach and rate is None:
        raise typer.BadParameter("--detach goes with --rate")
    asked = {"recipient": recipient, "reason": reason, "cut_off": before, "limit": limit}
    if rate is None:
        _replay_now(config, as_agent, places, asked | {"after": after, "dry_run": dry_run}, as_json=as_json)
    elif places or after is not None:
        raise typer.BadParameter("--rate goes with filters or --all, and starts at the first")
    elif dry_run:
        _show_plan(act_as(config, as_agent, lambda agent: replay_jobs.preview(agent, asked)), as_json=as_json)
    else:
        replay_jobs.start(config, as_agent, asked | {"rate": rate or None}, detach=detach, as_json=as_json)


def _replay_now(config: Path, as_agent: str, places: list[str] | None, asked: dict[str, Any], *, as_json: bool) -> None:
    limit = asked.pop("limit") or ITEMS_DEFAULT
    if limit > ITEMS_MAX:
        raise typer.BadParameter(f"at most {ITEMS_MAX} at once; more go by a job: add --rate")
    items = [item_at(place) for place in places] if places else None

    async def act(agent: Agent) -> dict[str, Any]:
        return await agent.dead_letters.replay(items, limit=limit, **asked)

    answer = act_as(config, as_agent, act)
    if asked["dry_run"]:
        _show_plan(answer, as_json=as_json)
    else:
        _tell(answer, as_json=as_json)
    if answer["next"] is not None and not as_json:
        print(f"there are more; to go on, add: --after {answer['next']}")
    _check(answer)


def _show_plan(answer: dict[str, Any], *, as_json: bool) -> None:
    _tell(answer, as_json=as_json)
    if not as_json:
        print(f"{answer['matched']} in all; what dies from now on is left out with: --before {answer['cut_off']}")


def resolve(
    places: Annotated[list[str], typer.Argument(metavar="AGENT/CHANNEL/SEQUENCE...")],
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="How they were dealt with.")] = None,
    as_agent: AsAgent = _ORCHESTRATOR,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Close them: they stay dead, and are not listed any more."""
    items = [item_at(place) for place in places]

    async def act(agent: Agent) -> dict[str, Any]:
        return await agent.dead_letters.resolve(items, note)

    answer = act_as(config, as_agent, act)
    _tell(answer, as_json=as_json)
    _check(answer)


def _place(item: dict[str, Any]) -> str:
    return "{recipient}/{channel}/{channel_sequence_id}".format(**item)


def _line(letter: dict[str, Any]) -> str:
    times = f", {letter['cycles']} times" if letter["cycles"] > 1 else ""
    said = f": {letter['detail']}" if letter["detail"] else ""
    closed = f" ({letter['closure']})" if letter["closure"] else ""
    return printable(
        f"{_place(letter)} {letter['type']} from {letter['sender']}, {letter['reason']}{times}, "
        f"at {letter['died_at']}{closed}{said}"
    )


def _tell(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer))
        return
    would = " (nothing was changed)" if answer.get("dry_run") else ""
    for outcome in answer["outcomes"]:
        word = outcome["problem"]["detail"] if "problem" in outcome else outcome["status"]
        print(printable(f"{_place(outcome)} {word}{would}"))


def _check(answer: dict[str, Any]) -> None:
    if answer["refused"]:
        raise Exit(FAILED, f"{answer['refused']} of {len(answer['outcomes'])} were refused")
