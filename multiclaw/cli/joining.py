"""What agents need before a human lets them in: a key each, where the adapter that runs can read it."""

from collections.abc import Iterable
from pathlib import Path

from adapter.store.ownership import give_to_owner_of
from multiclaw.cli.exits import CONFIGURATION, Exit
from multiclaw.units import by_systemd, names_too_long
from shared.config import Config, ConfigurationFault, check_socket_path
from shared.durable_files import write_durably
from shared.keys import create_key


def prepare(config_path: Path, config: Config, agents: Iterable[str]) -> None:
    """Make their keys; a key that is there stays. Ends the verb for an agent that could not run, with what to do."""
    for agent in agents:
        if by_systemd(config) and (too_long := names_too_long([agent])):
            raise Exit(CONFIGURATION, too_long[0])
        try:
            check_socket_path(config.sidecar_socket(agent))
            key = create_key(config.paths.keys, agent)
        except ConfigurationFault as fault:
            raise Exit(CONFIGURATION, str(fault)) from fault
        except OSError as error:
            raise Exit(CONFIGURATION, f"cannot make the key of {agent}: {error.strerror}") from error
        if by_systemd(config):
            _hand(key, config_path, config, agent)


def steps(config_path: Path, config: Config, agents: Iterable[str]) -> list[str]:
    """What is left to do once they are let in."""
    if not by_systemd(config):
        words = "start its sidecar (`multiclaw up` does so by itself)"
        return [f"{words}: multiclaw sidecar --agent {agent} --config {config_path}" for agent in agents]
    starts = [f"systemctl start multiclaw-sidecar@{agent}.service" for agent in agents]
    return [f"multiclaw install-units --config {config_path}", *starts] if starts else []


def _hand(key: Path, config_path: Path, config: Config, agent: str) -> None:
    """Put a copy where a running adapter sees it: of its credentials it has those that were there at its start."""
    folder = config.handed_keys
    if not folder.is_dir():
        words = f"there is no {folder}, where the adapter finds the key of {agent}; nothing was approved"
        raise Exit(CONFIGURATION, f"{words}\nmake it with: multiclaw install-units --config {config_path}")
    copy = folder / key.name
    try:
        write_durably(copy, key.read_bytes())
        give_to_owner_of(folder, copy)
    except OSError as error:
        raise Exit(CONFIGURATION, f"cannot hand the adapter the key of {agent}: {error.strerror}") from error
