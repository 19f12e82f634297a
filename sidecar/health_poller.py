"""Health polling: the only thing that touches the adapter while the breaker is open, and what starts recovery.

While the link is well a probe goes out every `health_poll_seconds`, give or take half, so that sidecars do not probe in
step. While the breaker is open, pauses double up to a cap, with full jitter. Two probes in a row that succeed reset
them: the one that closes the breaker, and the next, which finds it closed still, and no request that has failed since
one was answered. So an adapter whose health is well and whose answers are not is asked less and less often. While the
adapter is away, a new socket file tells without touching it that it was started again, and cuts a pause short: the
kernel says so, and nothing is looked at meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import backoff

from shared.config import Limits
from sidecar.breaker import LinkBreaker
from sidecar.folder_watch import FolderWatch
from sidecar.link import Link

_log = logging.getLogger(__name__)


class HealthPoller:
    """`reachable` is what the last probe found; `changed` is called when it finds something else.

    `place` in [0, 1) is this sidecar's own among all of the deployment: by it the first probes after a start of the
    adapter, which all sidecars see at once, are apart for certain, where chance would put some of a few together.
    """

    def __init__(
        self,
        link: Link,
        breaker: LinkBreaker,
        socket_path: Path,
        limits: Limits,
        *,
        place: float,
        on_ready: Callable[[], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._link = link
        self._breaker = breaker
        self._socket_path = socket_path
        self._limits = limits
        self._place = place
        self._on_ready = on_ready
        self._changed = changed
        self._open_pauses = self._new_pauses()
        self._watch = FolderWatch(socket_path.parent)
        self._probed_socket: tuple[int, int] | None = None
        self.reachable = False

    @property
    def shut_out(self) -> str | None:
        """Why the adapter does not let this agent in, as it said last."""
        return self._link.shut_out

    async def run(self) -> None:
        """Probe for ever; cancel it to end it."""
        try:
            while True:
                await self._probe()
                await self._pause()
        finally:
            self._watch.close()

    async def _probe(self) -> None:
        was_reachable, was_closed = self.reachable, self._breaker.closed
        self._probed_socket = _identity(self._socket_path)
        with self._breaker.probe() as probe:
            probe.ready = self.reachable = await self._is_ready()
        if was_reachable != self.reachable:
            _log.info("adapter-%s: breaker %s", "ready" if self.reachable else "away", self._breaker.state)
            self._changed()
        if self.reachable and was_closed and not self._breaker.is_doubted:
            self._open_pauses = self._new_pauses()
        if self.reachable:
            self._on_ready()

    async def _is_ready(self) -> bool:
        try:
            return await self._link.is_ready()
        except Exception:  # whatever it was, the next probe comes
            _log.exception("probe-failed")
            return False

    async def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._pause_seconds()
        if self.reachable:
            self._watch.close()
            await asyncio.sleep(due - loop.time())
            return
        self._watch.open()
        hastened = False
        while (left := due - loop.time()) > 0:
            if not hastened and _identity(self._socket_path) != self._probed_socket:
                hastened = True
                due = min(due, loop.time() + self._place * self._limits.health_poll_seconds)
            else:
                await self._watch.wait(left)

    def _pause_seconds(self) -> float:
        if self._breaker.closed:
            every = self._limits.health_poll_seconds
            return every / 2 + backoff.full_jitter(every)
        return backoff.full_jitter(next(self._open_pauses))

    def _new_pauses(self) -> Generator[float, Any, None]:
        limits = self._limits
        pauses = backoff.expo(factor=limits.breaker_reset_seconds, max_value=limits.breaker_reset_cap_seconds)
        next(pauses)  # backoff's generators give their first value after one start-up step
        return pauses


def _identity(path: Path) -> tuple[int, int] | None:
    """What changes when another socket is bound at `path`."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns
