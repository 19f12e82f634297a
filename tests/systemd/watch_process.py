"""`multiclaw watch` in the box, for a deployment that systemd does not run, with its output in a file."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.systemd.box import Box
from tests.systemd.installation import MULTICLAW
from tests.systemd.installed import until

FOLDER = "/run/watched"


class WatchProcess:
    """A deployment of root's own, and its watcher, started as often as a test likes."""

    def __init__(self, box: Box) -> None:
        self._box = box
        box.run(MULTICLAW, "init", "--dir", FOLDER)
        box.write(f"{FOLDER}/out", "")

    @contextmanager
    def running(self, *options: str) -> Iterator[None]:
        """Watch, from when it says that it is ready until the block ends; it ends by SIGKILL.

        What it has shown it remembers by then: killed between the two, the next one shows that once more.
        """
        unit = f"watched-{secrets.token_hex(4)}.service"  # systemd may still know the one before
        settings = [f"--property=StandardOutput=append:{FOLDER}/out", f"--property=StandardError=append:{FOLDER}/err"]
        command = [MULTICLAW, "watch", "--json", "--config", f"{FOLDER}/multiclaw.toml", *options]
        self._box.run("systemd-run", "--quiet", f"--unit={unit}", "--service-type=notify", *settings, *command)
        try:
            yield
            until(self._remembers_all, "what was shown is remembered")
        finally:
            self._box.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", unit)
            until(lambda: self._state(unit) == "failed", "it is dead")
            self._box.run("systemctl", "reset-failed", unit)

    def _state(self, unit: str) -> str:
        return self._box.run("systemctl", "show", "--property=ActiveState", "--value", unit).stdout.strip()

    def _remembers_all(self) -> bool:
        place = self._box.path(f"{FOLDER}/state/watch/place.json")
        remembered = json.loads(place.read_text())["recent"] if place.exists() else []
        return {alarm["id"] for alarm in self.shown()} <= set(remembered)

    def shown(self) -> list[dict[str, Any]]:
        """Every alarm that was printed, by all of them."""
        return [json.loads(line) for line in self._box.path(f"{FOLDER}/out").read_text().splitlines()]

    def shown_seconds(self) -> float:
        """When the last alarm was printed, in seconds since the epoch."""
        return self._box.path(f"{FOLDER}/out").stat().st_mtime

    def kinds(self, prefix: str) -> list[str]:
        """The kinds of alarms that were printed, of those that begin so, in order."""
        return [alarm["kind"] for alarm in self.shown() if alarm["kind"].startswith(prefix)]

    def log(self) -> str:
        """What it wrote on standard error."""
        return self._box.path(f"{FOLDER}/err").read_text()
