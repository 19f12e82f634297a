"""`topology`: who belongs to the deployment, what is proposed, and a human's decisions about it."""

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from multiclaw.cli import joining, topology_file
from multiclaw.cli.acting import act_as, printable
from multiclaw.cli.exits import CONFIGURATION, FAILED, Exit
from multiclaw.cli.governing import Governor, governor
from multiclaw.cli.initialise import make
from multiclaw.cli.options import CONFIG_DEFAULT, AsAgent, AsJson, ConfigPath, load_config
from multiclaw.cli.topology_change import Changes, change_of
from multiclaw.client import Agent
from shared import topology as wire
from shared.config import Config, ConfigurationFault, Membership, check_text

_ORCHESTRATOR: Final = "orchestrator"

Number = Annotated[int, typer.Argument(metavar="VERSION", min=1, help="The version, as list names it.")]
Note = Annotated[str | None, typer.Option(metavar="TEXT", help="What you say to it; it is kept.")]


def register(application: typer.Typer) -> None:
    """Add the verbs of this file."""
    group = typer.Typer(no_args_is_help=True, help="Who belongs: see it, propose a change, decide on one.")
    for verb in (show, propose, approve, deny, apply):
        group.command()(verb)
    group.command("list")(show_list)
    application.add_typer(group, name="topology")


def show(
    version: Annotated[int | None, typer.Argument(metavar="[VERSION]", min=1, help="Another than the current.")] = None,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show the topology in force, or another version."""
    _print(_version(governor(config, load_config(config)), version), as_json=as_json, whole=True)


def show_list(
    before: Annotated[int | None, typer.Option(metavar="VERSION", min=1, help="Go on where a page ended.")] = None,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List every version, the newest first: what is in force, proposed, denied, or has been."""
    human = governor(config, load_config(config))
    page = human.get(wire.VERSIONS_PATH + ("" if before is None else f"?before={before}"))
    if as_json:
        print(json.dumps(page))
        return
    for version in page["versions"]:
        _print(version, as_json=False)
    if page["next"] is not None:
        print(f"there are more; to go on, add: --before {page['next']}")


def propose(  # noqa: PLR0913 - one parameter for each option
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; the human reads it.")],
    add_agent: Annotated[list[str] | None, typer.Option(metavar="NAME[=ROLE[:PORT]]", help="It joins.")] = None,
    remove_agent: Annotated[list[str] | None, typer.Option(metavar="NAME", help="It leaves.")] = None,
    add_channel: Annotated[list[str] | None, typer.Option(metavar="NAME=A,B", help="A new channel.")] = None,
    remove_channel: Annotated[list[str] | None, typer.Option(metavar="NAME", help="It ends.")] = None,
    join: Annotated[list[str] | None, typer.Option(metavar="CHANNEL=A,B", help="They join a channel.")] = None,
    leave: Annotated[list[str] | None, typer.Option(metavar="CHANNEL=A,B", help="They leave a channel.")] = None,
    as_agent: AsAgent = _ORCHESTRATOR,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Propose a change to a human, as the orchestrator. Each option may be given more than once."""
    change = change_of(Changes(add_agent, remove_agent, add_channel, remove_channel, join, leave))

    async def act(agent: Agent) -> dict[str, Any]:
        return await agent.topology.propose(change, reason)

    proposal = act_as(config, as_agent, act)
    _print(proposal, as_json=as_json)
    if not as_json:
        print(f"a human decides: multiclaw topology approve {proposal['version']} --config {config}")


def approve(version: Number, note: Note = None, config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """Take a proposed version: make the keys of its new agents, put it in force, and write it into the file."""
    loaded = load_config(config)
    human = governor(config, loaded)
    _check_file(human, config, loaded)
    proposed = _members(_version(human, version))
    _render(config, proposed)
    new = [agent for agent in proposed.agents if agent not in loaded.agents]
    joining.prepare(config, loaded, new)
    approved = human.post(wire.APPROVE_PATH.format(version=version), _decision(note))
    _print(_write(human, config, approved, quiet=as_json), as_json=as_json)
    if not as_json:
        for step in joining.steps(config, loaded, new):
            print(f"next: {step}")


def deny(version: Number, note: Note = None, config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """Refuse a proposed version. It stays in the list."""
    human = governor(config, load_config(config))
    _print(human.post(wire.DENY_PATH.format(version=version), _decision(note)), as_json=as_json)


def apply(config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """Write the version in force into the file, where that was not done when it was approved."""
    loaded = load_config(config)
    human = governor(config, loaded)
    _check_file(human, config, loaded)
    _print(_write(human, config, _version(human), quiet=as_json), as_json=as_json)


def _version(human: Governor, number: int | None = None) -> dict[str, Any]:
    return human.get(wire.PATH if number is None else wire.ONE_PATH.format(version=number))


def _members(version: dict[str, Any]) -> Membership:
    return Membership.model_validate(version["topology"])


def _decision(note: str | None) -> dict[str, Any]:
    return {} if note is None else {"note": note}


def _check_file(human: Governor, path: Path, config: Config) -> None:
    """End the verb where somebody has edited the file since: writing into it would undo that, unseen."""
    version = _version(human)
    while _members(version) != config.membership and not version["in_file"] and version["base"]:
        version = _version(human, version["base"])
    if _members(version) != config.membership:
        raise Exit(
            CONFIGURATION,
            f"the agents or channels in {path} were edited by hand and are not in force yet; nothing was changed.\n"
            "Restart the adapter, which takes the file over, or undo the edit; then try again",
        )


def _render(path: Path, membership: Membership) -> str:
    """The text of the file with this membership; ends the verb where no process would load it."""
    try:
        text = topology_file.rewritten(path.read_text(encoding="utf-8"), membership)
        check_text(text, path)
    except ConfigurationFault as fault:
        words = f"with this change, {fault}\nmend that in the file first; nothing was changed"
        raise Exit(CONFIGURATION, words) from fault
    return text


def _write(human: Governor, path: Path, version: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """Write a version that is in force, make what its new agents need, and say that it is written."""
    number = version["version"]
    try:
        text = _render(path, _members(version))
        made = [] if text == path.read_text(encoding="utf-8") else [topology_file.write(path, text)]
        made += make(path, "")
    except (OSError, Exit) as error:
        words = f"version {number} is in force, but not all of it is on disk: {error}"
        raise Exit(FAILED, f"{words}\nmend that, then: multiclaw topology apply --config {path}") from error
    for each in () if quiet else made:
        print(f"made {each}")
    return human.post(wire.WRITTEN_PATH.format(version=number))


def _print(version: dict[str, Any], *, as_json: bool, whole: bool = False) -> None:
    if as_json:
        print(json.dumps(version))
        return
    by = f", {version['decided_by']} at {version['decided_at']}" if version["decided_by"] else ""
    said = f" ({version['note']})" if version["note"] else ""
    unwritten = "" if version["in_file"] or version["state"] != "current" else ", not in the file yet"
    print(
        printable(
            f"{version['version']} {version['state']}{unwritten}{by}{said}: "
            f"{version['proposed_by']} at {version['proposed_at']}: {version['reason']}"
        )
    )
    if whole:
        for name, agent in version["topology"]["agents"].items():
            print(f"  agent {name}: {agent['role']}" + (f", port {agent['port']}" if agent["port"] else ""))
        for name, channel in version["topology"]["channels"].items():
            print(f"  channel {name}: {', '.join(channel['members'])}")
        return
    for change in version["changes"]:
        print(f"  {change}")
