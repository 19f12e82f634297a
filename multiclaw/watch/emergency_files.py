"""Whose files of emergencies are read, for what there is no journal for, and who speaks in each."""

from dataclasses import dataclass
from pathlib import Path

from shared.config import Config
from shared.journal_events import Writer


@dataclass(frozen=True, slots=True)
class Folder:
    """Where one process keeps its state; whoever may write there speaks for `writer`, and a sidecar for `agent`."""

    path: Path
    writer: Writer
    agent: str = ""


def folders_of(config: Config, *, by_systemd: bool) -> list[Folder]:
    """Every folder whose file is read.

    Under systemd each process has a user of its own and a closed folder, and hands its file to the journal as soon as
    there is one (`shared/late_entries.py`); so only the watcher's own is read there.
    """
    own = Folder(config.watch_state, "watch")
    if by_systemd:
        return [own]
    sidecars = [Folder(config.sidecar_state(agent), "sidecar", agent) for agent in config.agents]
    return [Folder(config.adapter_state, "adapter"), *sidecars, own]
