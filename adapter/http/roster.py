"""The roster: who belongs to the deployment now, and by which keys they are known.

Everything on the link's edge asks it, so that all of them see a change of members at once: after its commit, and never
before. Keys are read when their agent joins. Those of agents that have left are kept to answer them with: a refusal
that is not sealed would not be believed.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from adapter.core.routing import Topology
from shared.keys import KeyFault, Keyring, find_keyring, key_path
from shared.names import ADAPTER
from shared.problems import Problem

_log = logging.getLogger(__name__)


class Roster:
    """`topology` is the one in force; `keyrings` has everybody whose requests can be told from forgeries. Keys of those
    who join are in the first of `folders` that has them."""

    def __init__(self, topology: Topology, keyrings: Mapping[str, Keyring], folders: Sequence[Path]) -> None:
        self.topology = topology
        self.keyrings = dict(keyrings)
        self._folders = folders

    def adopt(self, topology: Topology, known: Iterable[str]) -> None:
        """This is in force from now on. `known` are all who ever belonged.

        An agent whose key cannot be read stays one, but nothing lets it in.
        """
        self.topology = topology
        for name in known:
            if name == ADAPTER or name in self.keyrings:
                continue
            try:
                self.keyrings[name] = find_keyring(self._folders, name)
            except KeyFault as fault:
                if name in topology.roles:
                    _log.error("key-missing: %s", fault)

    def read_keys(self, agents: Iterable[str]) -> None:
        """Read the keys of those among `agents` that are none yet; raises `key-missing`."""
        for agent in agents:
            if agent in self.topology.roles:
                continue
            try:
                self.keyrings[agent] = find_keyring(self._folders, agent)
            except KeyFault as fault:
                places = " or ".join(str(key_path(folder, agent)) for folder in self._folders)
                detail = f"Nothing was approved: {agent!r} needs a key at {places}; multiclaw topology approve makes it"
                raise Problem("key-missing", detail) from fault
