"""`status`: what every process of a deployment says of itself."""

import asyncio
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from multiclaw import units
from multiclaw.cli.exits import FAILED
from multiclaw.cli.options import CONFIG_DEFAULT, AsJson, ConfigPath, load_config
from multiclaw.supervisor import health_of
from shared.config import Config


@dataclass(frozen=True, slots=True)
class AdapterStatus:
    """The adapter. `reason` tells why it is not ready; `pid` is null when it does not answer."""

    pid: int | None
    socket: str
    ready: bool
    reason: str | None
    sqlite_version: str | None
    governor_unread: int | None
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """One sidecar. What nobody can tell right now is null: of the sidecar when it is down, the queue's depth when the
    adapter is.
    """

    pid: int | None
    socket: str
    url: str | None
    token_file: str
    ready: bool
    reason: str | None
    queue_depth: int | None
    last_seen: str | None
    outbox_depth: int | None
    breaker: str | None
    conditions: list[str]


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    """All of them; as JSON it has these names."""

    adapter: AdapterStatus
    agents: dict[str, AgentStatus]

    @property
    def ready(self) -> bool:
        """Whether every process is."""
        return self.adapter.ready and all(agent.ready for agent in self.agents.values())

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command()(status)


def status(config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """Tell for the adapter and each agent whether it is ready, where it listens, and what waits there."""
    loaded = load_config(config)
    found = asyncio.run(collect(loaded))
    if as_json:
        print(json.dumps(found.document(), indent=2))
    else:
        _print(found, config, by_systemd=units.by_systemd(loaded))
    raise typer.Exit(0 if found.ready else FAILED)


async def collect(config: Config) -> DeploymentStatus:
    """Ask all processes at once."""
    sockets = [config.adapter_socket, *map(config.sidecar_socket, config.agents)]
    adapter, *sidecars = await asyncio.gather(*map(health_of, sockets))
    queues = adapter.body.get("queues", {})
    agents = {}
    for name, health in zip(config.agents, sidecars, strict=True):
        agents[name] = AgentStatus(
            pid=health.pid,
            socket=str(config.sidecar_socket(name)),
            url=_url(config.sidecar_port_file(name)) if health.pid else None,
            token_file=str(config.token_file(name)),
            ready=health.ready,
            reason=health.reason,
            queue_depth=queues.get(name),
            last_seen=adapter.body.get("last_seen", {}).get(name),
            outbox_depth=health.body.get("outbox_depth"),
            breaker=health.body.get("breaker"),
            conditions=list(map(_condition, health.body.get("conditions", []))),
        )
    adapter_status = AdapterStatus(
        pid=adapter.pid,
        socket=str(config.adapter_socket),
        ready=adapter.ready,
        reason=adapter.reason,
        sqlite_version=adapter.body.get("sqlite_version"),
        governor_unread=adapter.body.get("governor_unread"),
        warnings=adapter.body.get("warnings", []),
    )
    return DeploymentStatus(adapter_status, agents)


def _url(port_file: Path) -> str | None:
    """Where a sidecar that answers its socket listens on loopback; `None` in the moment before it says so."""
    try:
        return f"http://127.0.0.1:{int(port_file.read_text(encoding='ascii'))}"
    except (OSError, ValueError):
        return None


def _condition(lasting: dict[str, str]) -> str:
    """What the sidecar has told the journal, and what is not over."""
    return "{condition} since {since}: {detail}".format(**lasting)


def _table_of(found: DeploymentStatus) -> Table:
    """The same for people: one row for each process."""
    table = Table(box=None, pad_edge=False)
    for column in ("process", "ready", "pid", "queue", "outbox", "breaker", "address"):
        table.add_column(column, justify="right" if column in {"pid", "queue", "outbox"} else "left")
    adapter = found.adapter
    table.add_row("adapter", _yes(adapter.ready), _cell(adapter.pid), "", "", "", adapter.socket)
    for name, agent in found.agents.items():
        cells = map(_cell, (agent.pid, agent.queue_depth, agent.outbox_depth, agent.breaker, agent.url or agent.socket))
        table.add_row(name, _yes(agent.ready), *cells)
    return table


def _print(found: DeploymentStatus, config: Path, *, by_systemd: bool) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(_table_of(found))
    processes: dict[str, AdapterStatus | AgentStatus] = {"adapter": found.adapter, **found.agents}
    for name, process in processes.items():
        if not process.ready:
            console.print(f"{name} is not ready: {process.reason}", markup=False)
    for name, agent in found.agents.items():
        for condition in agent.conditions:
            console.print(f"{name}: {condition}", markup=False)
    for warning in found.adapter.warnings:
        console.print(warning, markup=False)
    if found.adapter.governor_unread:
        words = f"{found.adapter.governor_unread} unread for a human: multiclaw governor inbox --config {config}"
        console.print(words, markup=False)
    if not found.ready:
        mend = "systemctl status 'multiclaw*'" if by_systemd else f"multiclaw up --config {config}"
        console.print(f"next: {mend}", markup=False)


def _yes(ready: bool) -> str:
    return "yes" if ready else "no"


def _cell(value: object) -> str:
    return "-" if value is None else str(value)
