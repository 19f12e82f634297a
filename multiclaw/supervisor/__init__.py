"""Keeps the adapter and every sidecar running as real child processes: for `multiclaw up`, the demo and tests.

In production systemd does this; see `deploy/systemd`. Decisions are in `restarts`, the rest is a thin edge.
"""

from multiclaw.supervisor.child import ChildView, Event, Report
from multiclaw.supervisor.health import Health, health_of
from multiclaw.supervisor.programs import Program, programs_of
from multiclaw.supervisor.supervisor import Failure, NotReady, Supervisor

__all__ = [
    "ChildView",
    "Event",
    "Failure",
    "Health",
    "NotReady",
    "Program",
    "Report",
    "Supervisor",
    "health_of",
    "programs_of",
]
