"""Other message systems, measured beside ours: started by us, in a temporary folder, told to promise the same.

A send is answered when it is synced to the disk, and a receipt is acknowledged. Each is spoken to with its own Python
client (`pip install multiclaw[bench]`), which costs more than the light one that speaks to ours: see `load cpu`.

`bare` and `hops` are no other systems but a floor, on our own packages (`bench/bare`): they need nothing installed, and
are spoken to with the light client.
"""

import importlib
import shutil
from typing import Final

from bench.peers.base import Peer

PEERS: Final = ("nats", "redis", "rabbitmq", "postgres", "bare", "hops")


def find(name: str) -> Peer | str:
    """The peer of that name, or why it cannot be measured here."""
    try:
        peer: Peer = importlib.import_module(f"bench.peers.{name}").PEER
    except ImportError as error:
        return f"skipped: there is no Python client ({error}); pip install 'multiclaw[bench]'"
    server = peer.server()
    if shutil.which(server) is None:
        return f"skipped: {server} is not installed; {peer.hint}"
    return peer


__all__ = ["PEERS", "Peer", "find"]
