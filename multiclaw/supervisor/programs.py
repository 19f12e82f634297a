"""What a deployment consists of, as command lines."""

from dataclasses import dataclass
from pathlib import Path

from multiclaw.interpreter import python_module
from shared.config import Config
from shared.names import ADAPTER


@dataclass(frozen=True, slots=True)
class Program:
    """One child. `socket` is where its `GET /health` answers; of several, a higher `stop_order` is stopped later."""

    name: str
    command: tuple[str, ...]
    socket: Path
    stop_order: int = 0


def programs_of(config_path: Path, config: Config) -> list[Program]:
    """The adapter first, then a sidecar per agent. Sidecars stop first, so that what they hold can still leave."""
    adapter = Program(ADAPTER, python_module("adapter", config_path), config.adapter_socket, stop_order=1)
    sidecars = [
        Program(
            sidecar_name(agent),
            python_module("sidecar", config_path, "--agent", agent),
            config.sidecar_socket(agent),
        )
        for agent in config.agents
    ]
    return [adapter, *sidecars]


def sidecar_name(agent: str) -> str:
    """The process name of an agent's sidecar, as in its socket and its state folder."""
    return f"sidecar-{agent}"
