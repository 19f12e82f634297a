"""Which types of message are critical, by what their contracts say: a sidecar needs that and nothing else of them.

The adapter reads the same files whole and judges; here an agent's own outbox decides who may take its last places.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

SHIPPED: Final = Path(__file__).parent / "contract_files"
"""The contracts that come with the program, one JSON file each."""

_log = logging.getLogger(__name__)


class Priorities:
    """The critical types of the shipped contracts and of a deployment's own, in `folder`.

    A type that is not known has the folder looked at again, if it has changed. What cannot be read is not critical; the
    adapter refuses to start with it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, bool] = {}
        self._read_at_ns: int | None = None

    def critical(self, kind: str) -> bool:
        """Whether messages of the type are critical."""
        if kind not in self._known:
            self._read()
        return self._known.get(kind, False)

    def _read(self) -> None:
        changed_ns = _changed_ns(self._folder)
        if self._known and changed_ns == self._read_at_ns:
            return
        self._known = dict([*_contracts(self._folder), *_contracts(SHIPPED)])
        self._read_at_ns = changed_ns


def _changed_ns(folder: Path) -> int | None:
    """When a file was last put there or taken away."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return None


def _contracts(folder: Path) -> Iterator[tuple[str, bool]]:
    for path in sorted(folder.glob("*.json")):
        try:
            definition = orjson.loads(path.read_bytes())
            yield str(definition["type"]), definition.get("priority") == "critical"
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("contract-unreadable: %s: %s", path, error)
