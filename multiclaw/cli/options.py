"""What the verbs share: the `--config` and `--json` options, and loading the file."""

from pathlib import Path
from typing import Annotated, Final

import typer

from multiclaw.cli.exits import CONFIGURATION, Exit
from shared.config import Config, ConfigurationFault, load
from shared.names import hint

ConfigPath = Annotated[
    Path,
    typer.Option("--config", envvar="MULTICLAW_CONFIG", metavar="PATH", help="The deployment's multiclaw.toml."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
AsAgent = Annotated[str, typer.Option("--as", metavar="AGENT", help="The agent to act as.")]

CONFIG_DEFAULT: Final = Path("multiclaw.toml")


def load_config(path: Path) -> Config:
    """The configuration at `path`; ends the verb where it is at fault."""
    try:
        return load(path)
    except ConfigurationFault as fault:
        raise Exit(CONFIGURATION, str(fault)) from fault


def check_agent(config: Config, agent: str) -> None:
    """End the verb unless the deployment has this agent."""
    if agent not in config.agents:
        known = ", ".join(config.agents)
        raise Exit(CONFIGURATION, f"there is no agent {agent!r}.{hint(agent, config.agents)} The agents are: {known}")
