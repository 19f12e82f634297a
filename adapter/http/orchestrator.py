"""What only the orchestrator may ask for."""

from typing import Final

from adapter.core.routing import Topology
from shared.problems import Problem
from shared.web.routes import Call

ROLE: Final = "orchestrator"


def permit(call: Call, topology: Topology, what: str = "Dead letters are the orchestrator's to handle") -> None:
    """Raise a `Problem` unless the caller has the role; `what` says what is the orchestrator's."""
    role = topology.roles[call.agent]
    if role != ROLE:
        raise Problem("not-permitted", f"{what}; your role is {role!r}.")
