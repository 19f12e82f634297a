"""`doctor`: what of this host would keep a deployment from running, or from keeping its promises."""

import json
from collections import Counter
from pathlib import Path
from typing import Final

import typer

from multiclaw.cli.exits import CONFIGURATION, FAILED
from multiclaw.cli.findings import Finding, examine, examine_library
from multiclaw.cli.options import CONFIG_DEFAULT, AsJson, ConfigPath
from shared.config import ConfigurationFault, load

_OF_CONFIGURATION: Final = frozenset({"configuration", "contracts", "keys", "sockets"})
"""The subjects for which a process would end with 78 itself."""


def register(application: typer.Typer) -> None:
    """Add the verb of this file."""
    application.command()(doctor)


def doctor(config: ConfigPath = CONFIG_DEFAULT, as_json: AsJson = False) -> None:
    """Examine SQLite, configuration, keys, units, tokens, sockets, disk and stores. It changes nothing, and needs no
    process that runs.

    The exit status is 0 without a fault (warnings are none), 78 when the configuration (or a contract, key or socket
    path that it names) is at fault, else 1.
    """
    findings = _findings(config)
    status = exit_status(findings)
    if as_json:
        print(json.dumps({"status": status, "findings": [found._asdict() for found in findings]}, indent=2))
    else:
        _print(findings)
    raise typer.Exit(status)


def exit_status(findings: list[Finding]) -> int:
    """What the verb ends with."""
    faults = {found.subject for found in findings if found.level == "fault"}
    if faults & _OF_CONFIGURATION:
        return CONFIGURATION
    return FAILED if faults else 0


def _findings(path: Path) -> list[Finding]:
    """The library is looked at in any case, all else needs a configuration."""
    try:
        config = load(path)
    except ConfigurationFault as fault:
        return [*examine_library(), Finding("configuration", "fault", str(fault))]
    well = Finding("configuration", "ok", f"{path}, {len(config.agents)} agents, {len(config.channels)} channels")
    return [*examine_library(), well, *examine(config)]


def _print(findings: list[Finding]) -> None:
    for found in findings:
        print(f"{found.level:<8}{found.subject:<16}{found.detail}")
    count = Counter(found.level for found in findings)
    print(f"{count['fault']} faults, {count['warning']} warnings")
