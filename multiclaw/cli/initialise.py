"""`init`: everything a deployment needs on disk. It makes what is missing and never touches what is there."""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from multiclaw.cli.exits import CONFIGURATION, Exit
from multiclaw.cli.options import load_config
from multiclaw.cli.template import AGENTS_DEFAULT, topology_text
from multiclaw.units import RUN, STATE, by_systemd
from shared.config import Config, ConfigurationFault, check_socket_path
from shared.keys import create_key, create_private, key_path
from shared.names import GOVERNOR, RESERVED, is_name

_TOKEN_BYTES: Final = 32  # as many as the signing keys have
_PRIVATE_FOLDER: Final = 0o700
_PUBLIC_FOLDER: Final = 0o755  # the adapter's own user must read the contracts


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command()(init)


def init(
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the deployment shall live.")],
    agents: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Other agents than the six of the default topology.")
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="For systemd: state in /var/lib/multiclaw, sockets in /run/multiclaw.")
    ] = False,
) -> None:
    """Make a deployment: the topology file, keys, tokens and folders. Running it again makes only what is missing."""
    config_path = directory / "multiclaw.toml"
    names = _names(agents) if agents else AGENTS_DEFAULT
    places = (str(STATE), str(RUN)) if system else ("state", "run")
    made = list(make(config_path, topology_text(names, *places)))
    for path in made:
        print(f"made {path}")
    if not made:
        print(f"nothing was missing in {directory}")
    _check_agents_option(config_path, names if agents else None)
    print(f"next: multiclaw {'install-units' if system else 'up'} --config {config_path}")


def _names(agents: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in agents.split(","))
    for name in names:
        if not is_name(name):
            raise Exit(CONFIGURATION, f"{name!r} is not a name for an agent: use 1 to 63 of a-z, 0-9 and '-'")
        if name in RESERVED:
            raise Exit(CONFIGURATION, f"the agent name {name!r} is reserved; choose another")
    if len(set(names)) != len(names):
        raise Exit(CONFIGURATION, "--agents names an agent twice")
    return names


def make(config_path: Path, topology: str) -> Iterator[Path]:
    """Make what is missing of the deployment at `config_path`, and give each path that was made.

    Where systemd runs it, state, sockets and tokens are made by it and by the services, as the users they run as.
    """
    try:
        config_path.parent.mkdir(parents=True, exist_ok=True)
        if _create_whole(config_path, topology):
            yield config_path
        config = load_config(config_path)
        _check_sockets(config, config_path)
        yield from _make_folders(config)
        yield from _make_secrets(config)
    except OSError as error:
        raise Exit(CONFIGURATION, f"cannot make {error.filename}: {error.strerror}") from error


def _create_whole(path: Path, text: str) -> bool:
    """Create the file with all of its text or not at all; false if one stood there already."""
    if path.exists():
        return False
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _check_sockets(config: Config, config_path: Path) -> None:
    """A folder whose sockets could not be bound is refused now rather than by seven processes later."""
    try:
        for socket in (config.adapter_socket, *map(config.sidecar_socket, config.agents)):
            check_socket_path(socket)
    except ConfigurationFault as fault:
        raise Exit(CONFIGURATION, f"{fault}, or set paths.run in {config_path}") from fault


def _make_folders(config: Config) -> Iterator[Path]:
    paths = config.paths
    if by_systemd(config):
        yield from _make_folder(paths.keys, _PRIVATE_FOLDER)
        yield from _make_folder(paths.contracts, _PUBLIC_FOLDER)
        return
    sidecars = map(config.sidecar_state, config.agents)
    for folder in (paths.state, paths.run, paths.keys, paths.contracts, config.adapter_state, *sidecars):
        yield from _make_folder(folder, _PRIVATE_FOLDER)


def _make_folder(folder: Path, mode: int) -> Iterator[Path]:
    if not folder.is_dir():
        folder.mkdir(mode=mode, parents=True)
        yield folder


def _make_secrets(config: Config) -> Iterator[Path]:
    for signer in (*config.agents, GOVERNOR):
        if not key_path(config.paths.keys, signer).exists():
            yield create_key(config.paths.keys, signer)
    for agent in () if by_systemd(config) else config.agents:
        token = config.token_file(agent)
        if create_private(token, secrets.token_urlsafe(_TOKEN_BYTES)):
            yield token


def _check_agents_option(config_path: Path, names: tuple[str, ...] | None) -> None:
    """`--agents` for a deployment that stands with others did not do what was asked: say so."""
    there = tuple(load_config(config_path).agents)
    if names is not None and set(names) != set(there):
        raise Exit(
            CONFIGURATION,
            f"{config_path} was there already, with the agents {', '.join(there)}; --agents did not change it. "
            "Edit the file, then run init again: it makes the keys of new agents",
        )
