"""The roster: who belongs to the deployment now, and by which keys they are known.

Everything on the link's edge asks it, so that all of them see a change of members at once: after its commit, and never
before. Keys are read when their agent joins. Those of agents that have left are kept to answer them with: a refusal
that is not sealed would not be believed.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from adapter.core.routing import Topology
from shared.keys import KeyFault, Keyring, key_path, load_keyring
from shared.names import ADAPTER
from shared.problems import Problem

_log = logging.getLogger(__name__)


class Roster:
    """`topology` is the one in force; `keyrings` has everybody whose requests can be told from forgeries."""

    def __init__(self, topology: Topology, keyrings: Mapping[str, Keyring], folder: Path) -> None:
        self.topology = topology
        self.keyrings = dict(keyrings)
        self._folder = folder

    def adopt(self, topology: Topology, known: Iterable[str]) -> None:
        """This is in force from now on. `known` are all who ever belonged.

        An agent whose key cannot be read stays one, but nothing lets it in.
        """
        self.topology = topology
        for name in known:
            if name == ADAPTER or name in self.keyrings:
                continue
            try:
                self.keyrings[name] = load_keyring(self._folder, name)
            except KeyFault as fault:
                if name in topology.roles:
                    _log.error("key-missing: %s", fault)

    def read_keys(self, agents: Iterable[str]) -> None:
        """Read the keys of those among `agents` that are none yet; raises `key-missing`."""
        for agent in agents:
            if agent in self.topology.roles:
                continue
            try:
                self.keyrings[agent] = load_keyring(self._folder, agent)
            except KeyFault as fault:
                path = key_path(self._folder, agent)
                detail = (
                    f"Nothing was approved: {agent!r} needs a key at {path}. multiclaw topology approve makes it. "
                    "systemd loads keys at a start: add the agent to the file there, then: multiclaw install-units"
                )
                raise Problem("key-missing", detail) from fault
