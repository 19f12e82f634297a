"""What only the orchestrator may ask for."""

from typing import Final

from adapter.core.routing import Topology
from shared.problems import Problem
from shared.web.routes import Call

ROLE: Final = "orchestrator"


def permit(call: Call, topology: Topology) -> None:
    """Raise a `Problem` unless the caller has the role."""
    role = topology.roles[call.agent]
    if role != ROLE:
        raise Problem("not-permitted", f"Dead letters are the orchestrator's to handle; your role is {role!r}.")
