"""The command line: one file per group of verbs, of which only the one that is asked for is imported."""

import importlib
import io
import sys
from typing import Final

import typer

from multiclaw.cli.exits import INTERRUPTED, Exit

_VERBS: Final = {
    "init": "multiclaw.cli.initialise",
    "up": "multiclaw.cli.up",
    "status": "multiclaw.cli.status",
    "check": "multiclaw.cli.check",
    "backup": "multiclaw.cli.backup",
    "repair": "multiclaw.cli.repair",
    "restore": "multiclaw.cli.restore",
    "doctor": "multiclaw.cli.doctor",
    "demo": "multiclaw.demo.command",
    "send": "multiclaw.cli.messages",
    "recv": "multiclaw.cli.messages",
    "scheduled": "multiclaw.cli.scheduled",
    "outbox": "multiclaw.cli.outbox",
    "dead-letters": "multiclaw.cli.dead_letters",
    "topology": "multiclaw.cli.topology",
    "governor": "multiclaw.cli.inbox",
    "adapter": "multiclaw.cli.processes",
    "sidecar": "multiclaw.cli.processes",
    "wait-ready": "multiclaw.cli.readiness",
    "watch": "multiclaw.cli.watch",
    "install-units": "multiclaw.cli.units",
    "bench": "bench.command",
}
"""Where each verb is. Such a module has a function `register(application)`, which adds its verbs."""

_EPILOG: Final = (
    "Exit status: 0 done, 1 failed or refused, 2 wrong use, 69 what is needed does not answer, "
    "78 the configuration is at fault."
)


def build(verb: str | None = None) -> typer.Typer:
    """The application with the verb that is asked for; with all, where that is not one of them."""
    application = typer.Typer(
        name="multiclaw",
        epilog=_EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    application.callback()(_root)
    modules = [_VERBS[verb]] if verb in _VERBS else dict.fromkeys(_VERBS.values())
    for module in modules:
        importlib.import_module(module).register(application)
    return application


def _root() -> None:
    """Reliable messaging between AI agents that share a host."""


def main() -> None:
    """The entry point of the `multiclaw` command."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that lacks a character is no failure
    try:
        build(sys.argv[1] if len(sys.argv) > 1 else None)()
    except Exit as end:
        print(f"multiclaw: {end.words}", file=sys.stderr)
        sys.exit(end.status)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
