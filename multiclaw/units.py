"""What systemd needs of a deployment, as files: decided here, written by `multiclaw install-units`.

The files under `deploy/systemd` are for an environment at `/opt/multiclaw` and a deployment in `/etc/multiclaw`. Here
they get the places of this installation, and what depends on the configuration is added: keys, users, links, and the
folder of backups.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from shared.config import Config
from shared.keys import key_path
from shared.names import GOVERNOR

STATE: Final = Path("/var/lib/multiclaw")
RUN: Final = Path("/run/multiclaw")
"""Fixed, because units can only name folders below these parents. The configuration must name the same."""

ADAPTER_USER: Final = "multiclaw"

AGENT_NAME_CHARS_MAX: Final = 27
"""An agent's user is `mc-NAME`, its sidecar's `mcs-NAME`, and systemd takes names of 31 bytes (utmp(5))."""

UNITS: Final = PurePosixPath("etc/systemd/system")
_KEYS: Final = UNITS / "multiclaw-adapter.service.d/keys.conf"
BACKUPS: Final = UNITS / "multiclaw-adapter.service.d/backups.conf"
"""Opens the folder of backups to the adapter, where it is not in the adapter's own."""

WANTED: Final = UNITS / "multiclaw.target.wants"
"""The folder of links to what starts with the target."""

_WATCH_DROP_IN: Final = "watch.conf"
WATCH_DROP_INS: Final = f"multiclaw-sidecar@*.socket.d/{_WATCH_DROP_IN}"
"""Which files open a sidecar's socket to the watcher, below the folder `UNITS`."""

SYSUSERS: Final = PurePosixPath("etc/sysusers.d/multiclaw.conf")
TMPFILES: Final = PurePosixPath("etc/tmpfiles.d/multiclaw.conf")
_ELSEWHERE: Final = {
    "multiclaw.catalog": PurePosixPath("usr/local/lib/systemd/catalog/multiclaw.catalog"),
    "multiclaw.sysusers.conf": SYSUSERS,
    "multiclaw.tmpfiles.conf": TMPFILES,
}

_HIDDEN: Final = tuple(map(Path, ("/home", "/root", "/run/user", "/tmp", "/var/tmp")))  # noqa: S108 - named, not used
"""What the units do not see (`ProtectHome=`, `PrivateTmp=`): nothing there can be started by them."""


_OPEN_TO_WATCH: Final = """\
# The watcher tells this orchestrator of alarms: who comes by the group of the socket may send, and nothing else.
[Socket]
SocketGroup=multiclaw-watch
SocketMode=0660
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Files by path and links by path, both relative to the root of the file system."""

    files: Mapping[PurePosixPath, str]
    links: Mapping[PurePosixPath, str]


def by_systemd(config: Config) -> bool:
    """Whether the deployment is one that systemd runs."""
    return config.paths.state == STATE


def plan(config: Config, folder: Path, programs: Path, templates: Mapping[str, str]) -> Plan:
    """The files of the deployment in `folder`, run by the programs in the folder `programs`.

    `templates` are the files of `deploy/systemd` by name.
    """
    files = {
        _ELSEWHERE.get(name, UNITS / name): text.replace("/opt/multiclaw/bin/", f"{programs}/").replace(
            "/etc/multiclaw/", f"{folder}/"
        )
        for name, text in templates.items()
    }
    files[_KEYS] = _credentials(config)
    backups = backup_folder(config)
    if backups is not None:
        files[BACKUPS] = _opened_to_adapter(backups)
    files[SYSUSERS] += "".join(f'u mc-{agent} - "Multiclaw agent {agent}"\n' for agent in config.agents)
    for agent in config.orchestrators:
        files[UNITS / f"multiclaw-sidecar@{agent}.socket.d" / _WATCH_DROP_IN] = _OPEN_TO_WATCH
    units = ["multiclaw-adapter.socket", "multiclaw-adapter.service", "multiclaw-watch.service"]
    units += [f"multiclaw-sidecar@{agent}.{kind}" for agent in config.agents for kind in ("socket", "service")]
    return Plan(files, {WANTED / unit: f"../{_template_of(unit)}" for unit in units})


def removal(names: Iterable[str]) -> list[PurePosixPath]:
    """The files that a plan may have made, whatever the topology was; its links are in the folder `WANTED`."""
    return [*(_ELSEWHERE.get(name, UNITS / name) for name in names), _KEYS, BACKUPS]


def backup_folder(config: Config) -> Path | None:
    """The folder of backups where the adapter's unit has to be told of it; None for one in the adapter's own folder."""
    folder = Path(os.path.normpath(config.backup_folder))
    return None if folder.is_relative_to(config.adapter_state) else folder


def obstacles(config: Config, folder: Path, used: Iterable[Path]) -> list[str]:
    """Why units would not run, each with what to do; empty where they would. `used` are the paths programs run from."""
    found = [
        f"paths.{name} is {path}, and the units have {wanted}: set it in {folder}/multiclaw.toml "
        f"(`multiclaw init --system` writes it so)"
        for name, path, wanted in (
            ("state", config.paths.state, STATE),
            ("run", config.paths.run, RUN),
            ("keys", config.paths.keys, folder / "keys"),
        )
        if path != wanted
    ]
    found += names_too_long(config.agents)
    found += [
        f"backups.folder is {path}, which is hidden from services; name another in {folder}/multiclaw.toml"
        for path in (backup_folder(config),)
        if path is not None and _is_hidden(path)
    ]
    found += [
        f"{path} is hidden from services; install Multiclaw where they see it, for example: "
        "python3 -m venv /opt/multiclaw, and use that one"
        for path in dict.fromkeys(used)
        if _is_hidden(path)
    ]
    return found


def _is_hidden(path: Path) -> bool:
    return any(path.is_relative_to(hidden) for hidden in _HIDDEN)


def names_too_long(agents: Iterable[str]) -> list[str]:
    """What keeps agents from having users of their own."""
    return [
        f"the agent's name {agent!r} has more than {AGENT_NAME_CHARS_MAX} characters, too many for a user of its own"
        for agent in agents
        if len(agent) > AGENT_NAME_CHARS_MAX
    ]


def _credentials(config: Config) -> str:
    keys = (key_path(config.paths.keys, signer) for signer in (*config.agents, GOVERNOR))
    lines = "".join(f"LoadCredential={key.name}:{key}\n" for key in keys)
    return f"# The keys of this topology; after a change, run `multiclaw install-units` again.\n[Service]\n{lines}"


def _opened_to_adapter(folder: Path) -> str:
    """With `-`: a disk that is not there keeps the adapter from its backups, of which it tells, and not from its work.

    The word is quoted as systemd.syntax(7) says, and `%` would begin a specifier.
    """
    word = str(folder).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    comment = "# `[backups] folder`; after a change, run `multiclaw install-units` again."
    return f'{comment}\n[Service]\nReadWritePaths="-{word}"\n'


def _template_of(unit: str) -> str:
    prefix, at, rest = unit.partition("@")
    return f"{prefix}@.{rest.rpartition('.')[2]}" if at else unit
