"""`adapter` and `sidecar`: the verbs a service manager runs. They import little, since they become another process."""

import os
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from multiclaw.cli.options import CONFIG_DEFAULT, ConfigPath
from multiclaw.interpreter import python_module


def register(application: typer.Typer) -> None:
    """Add the verbs of this file."""
    application.command()(adapter)
    application.command()(sidecar)


def adapter(config: ConfigPath = CONFIG_DEFAULT) -> None:
    """Run the adapter in the foreground."""
    _become("adapter", config)


def sidecar(
    agent: Annotated[str, typer.Option(metavar="NAME", help="The agent whose sidecar this is.")],
    config: ConfigPath = CONFIG_DEFAULT,
) -> None:
    """Run the sidecar of one agent in the foreground."""
    _become("sidecar", config, "--agent", agent)


def _become(module: str, config: Path, *arguments: str) -> NoReturn:
    """Become the process itself, so that a service manager's signals reach it and its exit status is ours."""
    command = python_module(module, config.absolute(), *arguments)
    os.execv(command[0], command)  # noqa: S606 - no shell is the point
