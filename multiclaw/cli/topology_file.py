"""Writing the topology into `multiclaw.toml`: only what differs, comments and order kept, whole or not at all."""

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import tomlkit
from tomlkit.items import Array, Comment, Table

from shared.config import Agent, Channel, ConfigurationFault, Membership

T = TypeVar("T", Agent, Channel)

_STREWN: Final = "its agents or channels are strewn over the file; write them as [agents.NAME] and [channels.NAME]"

PREVIOUS: Final = ".previous"
"""What the name of the file before gets at its end."""


def rewritten(text: str, membership: Membership) -> str:
    """The text of a file that says `membership`, and all else as it did.

    Raises `ConfigurationFault` where its tables are strewn so that they cannot be changed in place.
    """
    document = tomlkit.parse(text)
    _fit(document, "agents", membership.agents, _fit_agent)
    _fit(document, "channels", membership.channels, _fit_channel)
    text = tomlkit.dumps(document).rstrip("\n") + "\n"
    said = {name: tomllib.loads(text).get(name, {}) for name in Membership.model_fields}
    if Membership.model_validate(said) != membership:
        raise ConfigurationFault(_STREWN)
    return text


def write(path: Path, text: str) -> Path:
    """Put `text` in the place of the file; what was there stands beside it, at the path that is returned."""
    previous = path.with_name(path.name + PREVIOUS)
    mode = path.stat().st_mode & 0o777
    _write_synced(previous, path.read_text(encoding="utf-8"), mode)
    _write_synced(path, text, mode)
    return previous


def _write_synced(path: Path, text: str, mode: int) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _fit(document: tomlkit.TOMLDocument, name: str, wanted: Mapping[str, T], fit: Callable[[Table, T], None]) -> None:
    """Make the tables below `name` those of `wanted`.

    To the parser, a comment above a table is the end of the one before: it stays where it is, whichever of them goes.
    """
    group = document.setdefault(name, tomlkit.table(is_super_table=True))
    if not isinstance(group, Table):
        raise ConfigurationFault(_STREWN)
    for gone in [each for each in group if each not in wanted]:
        before = _before(document, group[gone])
        if before is not None:
            above, below = _cut_tail(before), _cut_tail(group[gone])
            before.value.body.extend(above + below if _says_something(above) else below)
        del group[gone]
    for each, value in wanted.items():
        if each in group:
            fit(group[each], value)
        else:
            _append(group, each, value)


def _append(group: Any, name: str, value: Agent | Channel) -> None:
    tables = [each for each in group.values() if isinstance(each, Table)]
    tail = _cut_tail(tables[-1]) if tables else []
    if tables:
        tables[-1].value.body.append((None, tomlkit.nl()))
    table = tomlkit.table()
    table.update(_as_new(value))
    group.append(name, table)
    table.value.body.extend(tail or [(None, tomlkit.nl())])


def _as_new(value: Agent | Channel) -> dict[str, Any]:
    """What a person would write."""
    return {key: each for key, each in value.model_dump().items() if (key, each) != ("port", 0)}


def _before(document: tomlkit.TOMLDocument, table: Any) -> Table | None:
    """The table above, if both are written as tables."""
    previous = None
    for each in _tables(document):
        if each is table:
            return previous
        previous = each
    return None


def _says_something(tail: list[Any]) -> bool:
    return any(isinstance(item, Comment) for _, item in tail)


def _tables(container: Any) -> Iterator[Table]:
    """Every table with a header of its own, in the order of the text."""
    for _, item in (container.value if isinstance(container, Table) else container).body:
        if isinstance(item, Table):
            if not item.is_super_table():
                yield item
            yield from _tables(item)


def _cut_tail(table: Table) -> list[Any]:
    """Take away, and give, what stands behind the last key: comments and blank lines."""
    body = table.value.body
    length = len(body)
    while length and body[length - 1][0] is None:
        length -= 1
    tail = body[length:]
    del body[length:]
    return tail


def _fit_agent(table: Table, agent: Agent) -> None:
    said = Agent.model_validate(table.unwrap())
    if said.role != agent.role:
        table["role"] = agent.role
    if said.port != agent.port:
        table["port"] = agent.port


def _fit_channel(table: Table, channel: Channel) -> None:
    members = table.get("members")
    if isinstance(members, Array):
        for position in reversed(range(len(members))):
            if members[position] not in channel.members:
                del members[position]
        for member in channel.members:
            if member not in members:
                members.append(member)
    if members != channel.members:
        table["members"] = list(channel.members)
