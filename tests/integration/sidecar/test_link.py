"""The link's end: open requests are given a moment, whatever state they are in."""

import asyncio
import contextlib
from pathlib import Path

from shared.clock import Clock
from shared.keys import create_key, load_keyring
from sidecar.breaker import LinkBreaker
from sidecar.counters import Counters
from sidecar.link import Link


async def test_stopping_in_the_turn_in_which_a_request_times_out(short_folder: Path) -> None:
    """A deadline that has just fired and is not let go yet cannot be moved; the stop goes on all the same."""
    create_key(short_folder, "pm")
    clock, keyring = Clock(), load_keyring(short_folder, "pm")
    link = Link(short_folder / "s", keyring, clock, LinkBreaker(3, clock, quiet_us=1), Counters(), 1.0)

    expired: list[bool] = []
    faults: list[RuntimeError] = []

    def stop(deadline: asyncio.Timeout) -> None:
        expired.append(deadline.expired())
        try:
            link.stop()
        except RuntimeError as error:
            faults.append(error)

    with contextlib.suppress(TimeoutError):
        async with link._deadline(60):
            loop = asyncio.get_running_loop()
            (deadline,) = link._open_requests
            deadline.reschedule(loop.time())  # it fires in the next turn,
            loop.call_soon(stop, deadline)  # and this comes right after it
            await asyncio.Event().wait()
    assert (expired, faults) == ([True], [])
    await link.close()
