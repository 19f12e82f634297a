"""The options of `topology propose` as the change that they ask for."""

from dataclasses import dataclass
from typing import Any

import typer


@dataclass(frozen=True, slots=True)
class Changes:
    """What was given, each as often as its option was."""

    add_agent: list[str] | None
    remove_agent: list[str] | None
    add_channel: list[str] | None
    remove_channel: list[str] | None
    join: list[str] | None
    leave: list[str] | None


def change_of(given: Changes) -> dict[str, Any]:
    """The change as it is sent; raises `BadParameter` for what cannot be read. The adapter judges the rest."""
    agents = {"add": dict(map(_agent, given.add_agent or ())), "remove": given.remove_agent or []}
    new = {name: {"members": members} for name, members in map(_members, given.add_channel or ())}
    change: dict[str, dict[str, list[str]]] = {}
    for verb, options in (("add", given.join), ("remove", given.leave)):
        for name, members in map(_members, options or ()):
            change.setdefault(name, {}).setdefault(verb, []).extend(members)
    channels = {"add": new, "change": change, "remove": given.remove_channel or []}
    if not any((*agents.values(), *channels.values())):
        raise typer.BadParameter("say what shall change: see multiclaw topology propose --help")
    return {"agents": agents, "channels": channels}


def _agent(option: str) -> tuple[str, dict[str, Any]]:
    name, _, rest = option.partition("=")
    role, _, port = rest.partition(":")
    agent: dict[str, Any] = {"role": role} if role else {}
    if port:
        if not (port.isascii() and port.isdecimal()):
            raise typer.BadParameter(f"{port!r} in {option!r} is not a port")
        agent["port"] = int(port)
    return name, agent


def _members(option: str) -> tuple[str, list[str]]:
    name, equals, members = option.partition("=")
    if not equals:
        raise typer.BadParameter(f"{option!r} is not of the form CHANNEL=AGENT,AGENT, such as product=qa,ops")
    return name, [member for member in members.split(",") if member]
