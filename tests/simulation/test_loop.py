"""The clock of the simulation."""

import asyncio
import socket
import time

import pytest

from tests.simulation.loop import StuckError, run


def test_days_pass_at_once_and_in_order() -> None:
    """What is due first happens first, at its time, however long the wait."""
    seen: list[tuple[str, float]] = []

    async def at(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, round(asyncio.get_running_loop().time())))

    async def main() -> None:
        await asyncio.gather(at("late", 864_000), at("early", 60), at("middle", 3_600))

    began = time.monotonic()
    run(main())
    assert seen == [("early", 60), ("middle", 3_600), ("late", 864_000)]
    assert time.monotonic() - began < 10


def test_what_was_written_is_read_before_time_passes() -> None:
    """A socket's other end lives here too: no timeout fires while an answer is on its way."""

    async def main() -> float:
        ours, theirs = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=ours)
        reader, other = await asyncio.open_connection(sock=theirs)
        writer.write(b"x" * 100_000)
        assert len(await asyncio.wait_for(reader.readexactly(100_000), 0.001)) == 100_000
        writer.close()
        other.close()
        return asyncio.get_running_loop().time()

    assert run(main()) == 0.0


def test_waiting_for_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadlock ends the run instead of holding it up."""
    monkeypatch.setattr("tests.simulation.loop._STUCK_SECONDS", 0.01)

    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(StuckError):
        run(main())
