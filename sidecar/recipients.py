"""Whom a send that is queued may be for: what the file says, read again when it has changed and a name is not in it."""

import logging
from pathlib import Path

from shared.config import Config, ConfigurationFault, load
from shared.names import GOVERNOR, direct_channel, hint
from shared.problems import Problem

_log = logging.getLogger(__name__)

_Version = tuple[int, int, int]


class Recipients:
    """The names that the file knows. Members change while a sidecar runs, and the file is written after them."""

    def __init__(self, path: Path, config: Config) -> None:
        self._path = path
        self._version = _version(path)
        self._known = _names(config)

    def check(self, address: str) -> None:
        """Raise `unknown-recipient` for a name that is not in the file: the adapter would refuse it later, unseen."""
        if address in self._known:
            return
        self._reload()
        if address not in self._known:
            detail = f"There is no channel or agent {address!r}.{hint(address, self._known)}"
            raise Problem("unknown-recipient", detail, field="/to")

    def _reload(self) -> None:
        version = _version(self._path)
        if version == self._version:
            return
        try:
            self._known = _names(load(self._path))
        except ConfigurationFault as fault:  # half edited: what it said before holds until it can be read again
            _log.warning("configuration-unreadable: %s", fault)
        else:
            self._version = version


def _names(config: Config) -> frozenset[str]:
    return frozenset((*config.channels, *map(direct_channel, (*config.agents, GOVERNOR))))


def _version(path: Path) -> _Version | None:
    """What changes when the file is written."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
