"""The live table of `up`."""

import asyncio
from typing import Final

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from multiclaw.cli.status import DeploymentStatus, collect
from multiclaw.supervisor import ChildView, Supervisor
from shared.config import Config

_REFRESH_SECONDS: Final = 0.5
_COLUMNS: Final = ("process", "state", "pid", "restarts", "queue", "outbox", "breaker", "address")
_STYLES: Final = {"ready": "green", "failed": "red", "waiting": "yellow", "held": "yellow"}


async def refresh(supervisor: Supervisor, config: Config) -> None:
    """Show the deployment until cancelled."""
    with Live(_screen(supervisor.views, None, config), auto_refresh=False) as live:
        while True:
            live.update(_screen(supervisor.views, await collect(config), config), refresh=True)
            await asyncio.sleep(_REFRESH_SECONDS)


def _screen(views: list[ChildView], found: DeploymentStatus | None, config: Config) -> Group:
    table = Table(*_COLUMNS, box=None, pad_edge=False)
    adapter, *sidecars = views
    table.add_row(*_child_cells(adapter), "", "", "", str(config.adapter_socket))
    for view, name in zip(sidecars, config.agents, strict=True):
        agent = found.agents[name] if found else None
        numbers = (agent.queue_depth, agent.outbox_depth, agent.breaker, agent.url) if agent else (None,) * 4
        table.add_row(*_child_cells(view), *("-" if cell is None else str(cell) for cell in numbers))
    return Group(table, Text(f"logs are in {config.paths.state / 'log'}; Ctrl-C stops everything", style="dim"))


def _child_cells(view: ChildView) -> tuple[Text | str, ...]:
    state = Text(view.state, style=_STYLES.get(view.state, ""))
    return view.name, state, str(view.pid or "-"), str(view.restarts)
