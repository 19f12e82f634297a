"""The live table of `up`."""

import asyncio
from collections.abc import Mapping
from typing import Final

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from multiclaw.cli.status import AgentStatus, collect
from multiclaw.supervisor import ChildView, Supervisor
from multiclaw.supervisor.programs import sidecar_name
from shared.config import Config

_REFRESH_SECONDS: Final = 0.5
_COLUMNS: Final = ("process", "state", "pid", "restarts", "queue", "outbox", "breaker", "address")
_STYLES: Final = {"ready": "green", "failed": "red", "waiting": "yellow", "held": "yellow"}


async def refresh(supervisor: Supervisor) -> None:
    """Show the deployment until cancelled."""
    with Live(_screen(supervisor.views, {}, supervisor.config), auto_refresh=False) as live:
        while True:
            config = supervisor.config
            found = await collect(config)
            live.update(_screen(supervisor.views, found.agents, config), refresh=True)
            await asyncio.sleep(_REFRESH_SECONDS)


def _screen(views: list[ChildView], found: Mapping[str, AgentStatus], config: Config) -> Group:
    """What is known of each child: agents may have joined or left since they were asked."""
    table = Table(*_COLUMNS, box=None, pad_edge=False)
    adapter, *sidecars = views
    table.add_row(*_child_cells(adapter), "", "", "", str(config.adapter_socket))
    agents = {sidecar_name(name): agent for name, agent in found.items()}
    for view in sidecars:
        agent = agents.get(view.name)
        numbers = (agent.queue_depth, agent.outbox_depth, agent.breaker, agent.url) if agent else (None,) * 4
        table.add_row(*_child_cells(view), *("-" if cell is None else str(cell) for cell in numbers))
    return Group(table, Text(f"logs are in {config.paths.state / 'log'}; Ctrl-C stops everything", style="dim"))


def _child_cells(view: ChildView) -> tuple[Text | str, ...]:
    state = Text(view.state, style=_STYLES.get(view.state, ""))
    return view.name, state, str(view.pid or "-"), str(view.restarts)
