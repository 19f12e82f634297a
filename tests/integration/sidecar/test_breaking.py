"""The breaker in a whole sidecar: what reaches a sick adapter, what counts against it, and the pauses of its probes."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from shared.clock import Clock
from shared.config import Limits
from shared.problems import Problem
from sidecar.breaker import LinkBreaker
from sidecar.health_poller import HealthPoller
from sidecar.link import Link
from tests.integration.sidecar.harness import Client, Deployment, message, until, until_health
from tests.simulation.loop import run


class SickAdapter:
    """Counts connections and requests; answers 503, or hangs, or drops the line."""

    def __init__(self) -> None:
        self.hanging = False
        self.connections = 0
        self.requests: list[str] = []

    @contextlib.asynccontextmanager
    async def running(self, path: Path) -> AsyncIterator[None]:
        """At `path` until the block ends."""
        path.parent.mkdir(parents=True, exist_ok=True)
        server = await asyncio.start_unix_server(self._connected, path)
        try:
            yield
        finally:
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode())
            if self.hanging:
                await reader.read()
            writer.write(b"HTTP/1.1 503 Sick\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()
        writer.close()


async def _everything(client: Client) -> list[int]:
    """Each sort of request that needs the adapter, all at a time, and two hundred sends."""
    halves = ([message(payload=n) for n in half] for half in (range(100), range(100, 200)))
    asked = [client.call("POST", "/v1/messages/batch", {"messages": half}) for half in halves]
    asked += [client.poll(wait=5), client.ack("d0"), client.call("GET", "/v1/tasks/t")]
    asked += [client.call("GET", "/v1/dead-letters"), client.call("GET", "/v1/scheduled")]
    answers = await asyncio.gather(*asked)
    queued = [outcome["code"] for _, answer in answers[:2] for outcome in answer["outcomes"]]
    return [*queued, *(status for status, _ in answers[2:])]


async def test_while_it_is_open_there_are_no_connections_but_the_probes(deployment: Deployment) -> None:
    """Two hundred sends at once, polls, acks and views make none: each connection that is counted was a probe's."""
    sick = SickAdapter()
    async with sick.running(deployment.config.adapter_socket), deployment.sidecar() as client:
        await until_health(client, breaker="open")
        sick.connections, sick.requests[:] = 0, []
        assert await _everything(client) == [202] * 200 + [503] * 5
        await until(lambda: len(sick.requests) > 2)
        assert set(sick.requests) == {"/health"}
        assert sick.connections - len(sick.requests) in {0, 1}  # one may have just been made


async def test_a_hanging_probe_is_the_only_one_and_lets_go(deploy: Callable[..., Deployment]) -> None:
    """While one hangs no other begins; sends go to the outbox at once; when it times out the next one can begin, and
    when the adapter is well they all arrive in order."""
    deployment = deploy(link_timeout_seconds=0.3)
    sick = SickAdapter()
    sick.hanging = True
    async with deployment.sidecar() as client:
        async with sick.running(deployment.config.adapter_socket):
            await until_health(client, breaker="half-open")
            began = asyncio.get_running_loop().time()
            sick.connections = 0
            assert await _everything(client) == [202] * 200 + [503] * 5
            assert sick.connections <= 1 + (asyncio.get_running_loop().time() - began) / 0.3
            await until(lambda: sick.connections > 2)
        deployment.config.adapter_socket.unlink(missing_ok=True)
        async with deployment.adapter():
            await until_health(client, breaker="closed", outbox_depth=0)
        assert deployment.fake.order("product") == list(range(200))


async def test_what_an_agent_gives_up_is_no_failure_of_the_link(deployment: Deployment) -> None:
    """Fifty polls and fifty sends whose agent leaves before the answer: the breaker stays closed."""
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        deployment.fake.gate.clear()
        leaving = [asyncio.create_task(client.poll(wait=20)) for _ in range(50)]
        leaving += [asyncio.create_task(client.send(payload=n)) for n in range(50)]
        await until(lambda: deployment.fake.polls_open == 50 and deployment.fake.batches)
        for each in leaving:
            each.cancel()
        await asyncio.wait(leaving)
        await until(lambda: not deployment.fake.polls_open)
        deployment.fake.gate.set()
        assert (await client.send(payload="last"))[0] == 201
        _, metrics = await client.call("GET", "/metrics")
        assert 'multiclaw_sidecar_link_failures_total{agent="pm"} 0.0' in metrics
        assert 'multiclaw_sidecar_breaker_entries_total{agent="pm",state="open"} 0.0' in metrics


async def test_what_the_adapter_refuses_is_no_failure_of_the_link(deployment: Deployment) -> None:
    """Fifty messages that are refused for good and fifty questions about what is not there: the breaker stays closed,
    and the next message arrives."""
    problem = Problem("contract-violation", "No.", field="/payload")
    deployment.fake.judge = lambda envelope: problem if envelope["payload"] != "right" else None
    deployment.fake.before_view = _nothing_there
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        for number in range(50):
            assert (await client.send(payload=number))[0] == 422
            assert (await client.call("GET", "/v1/tasks/t"))[0] == 404
        assert (await client.send(payload="right"))[0] == 201
        _, metrics = await client.call("GET", "/metrics")
        assert 'multiclaw_sidecar_link_failures_total{agent="pm"} 0.0' in metrics
        assert 'multiclaw_sidecar_breaker_entries_total{agent="pm",state="open"} 0.0' in metrics


async def _nothing_there() -> None:
    raise Problem("not-found", "No such task.")


@pytest.mark.parametrize("trouble", ["timeout", "5xx"])
async def test_timeouts_and_5xx_open_it(deploy: Callable[..., Deployment], trouble: str) -> None:
    """Three views in a row, and not two, though health is well all the while."""
    deployment = deploy(link_timeout_seconds=0.1, health_poll_seconds=60, breaker_failures=3)
    adapter_fails = {"timeout": asyncio.Event().wait, "5xx": _fault}[trouble]
    deployment.fake.before_view = adapter_fails
    async with deployment.adapter(), deployment.sidecar() as client:
        await until_health(client, adapter_reachable=True)
        for _ in range(3):
            assert (await client.health())["breaker"] == "closed"
            assert (await client.call("GET", "/v1/tasks/t"))[0] in {500, 503}
        assert (await client.health())["breaker"] == "open"


async def _fault() -> None:
    raise Problem("internal", "Bug.")


class _Adapter:
    """A link to an adapter that is away until a moment of the loop's clock; keeps when it was probed."""

    shut_out = None

    def __init__(self, back_at: float) -> None:
        self.back_at = back_at
        self.probes: list[float] = []

    async def is_ready(self) -> bool:
        """Of `Link`."""
        self.probes.append(asyncio.get_running_loop().time())
        return self.probes[-1] >= self.back_at


def _breaker() -> LinkBreaker:
    return LinkBreaker(3, Clock(monotonic=asyncio.get_running_loop().time), quiet_us=1)


def _poller(
    adapter: _Adapter,
    folder: Path,
    on_ready: Callable[[], object],
    place: float = 0.5,
    breaker: LinkBreaker | None = None,
) -> HealthPoller:
    link, socket = cast("Link", adapter), folder / "adapter.sock"
    return HealthPoller(link, breaker or _breaker(), socket, Limits(), place=place, on_ready=on_ready)


def test_after_seven_days_it_recovers_within_one_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes go on with pauses of at most the cap, half of it on average, and the first one after the return is the
    recovery. Nothing tells of the return but the probes."""
    monkeypatch.setattr("sidecar.folder_watch.LOOK_SECONDS", 3_600)
    monkeypatch.setattr("sidecar.folder_watch.SURE_SECONDS", 3_600)
    cap, outage_seconds = Limits().breaker_reset_cap_seconds, 7 * 86_400

    async def outage() -> tuple[list[float], float]:
        ready = asyncio.Event()
        adapter = _Adapter(outage_seconds)
        polling = asyncio.create_task(_poller(adapter, tmp_path, ready.set).run())
        await ready.wait()
        polling.cancel()
        return adapter.probes, asyncio.get_running_loop().time()

    probes, recovered_at = run(outage())
    pauses = [after - before for before, after in pairwise(probes)]
    assert outage_seconds <= recovered_at <= outage_seconds + cap
    assert max(pauses) <= cap
    assert 0.45 * cap < sum(pauses) / len(pauses) < 0.55 * cap


def test_pauses_double_up_to_the_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While each probe fails, and while requests fail after each that succeeds; once requests work and two probes in a
    row have succeeded, the next trouble begins with a short pause again. Jitter is left out here."""
    monkeypatch.setattr("backoff.full_jitter", lambda seconds: seconds)

    async def away() -> list[float]:
        adapter = _Adapter(1_000.0)
        await _run_for(130, _poller(adapter, tmp_path, lambda: None))
        return adapter.probes

    async def sick() -> tuple[list[float], list[float]]:
        adapter, loop, troubles = _Adapter(0.0), asyncio.get_running_loop(), [range(130), range(200, 240)]
        breaker = _breaker()

        def requests_fail() -> None:
            for _ in range(3 if any(int(loop.time()) in trouble for trouble in troubles) else 0):
                breaker.failed(breaker.period)

        await _run_for(240, _poller(adapter, tmp_path, requests_fail, breaker=breaker))
        first, second = ([at for at in adapter.probes if int(at) in trouble] for trouble in troubles)
        return first, second

    first, second = run(sick())
    assert _pauses(run(away()))[2:9] == _pauses(first)[:7] == [1, 2, 4, 8, 16, 30, 30]
    assert _pauses(second)[:4] == [1, 2, 4, 8]


async def _run_for(seconds: float, poller: HealthPoller) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(poller.run(), seconds)


def _pauses(probes: list[float]) -> list[float]:
    return [round(after - before, 2) for before, after in pairwise(probes)]


class _SharedWatch:
    """One `FolderWatch` for all sidecars. Of the kernel's a user has 128, and a systemd that another test boots at the
    same time needs some of them."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def touch(self, path: Path) -> None:
        """Make a file, and tell everybody."""
        path.touch()
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seconds_max: float) -> None:
        """Of `FolderWatch`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await self._changed.wait()

    def open(self) -> None:
        """Of `FolderWatch`."""

    def close(self) -> None:
        """Of `FolderWatch`."""


@pytest.mark.parametrize(("sidecars", "restart"), [(7, 0), (7, 1), (7, 2), (200, 1)])
def test_first_probes_after_a_restart_are_spread(
    sidecars: int, restart: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sidecars that all see the new socket: no bucket of 100 ms holds over 30 % of the first probes, and the last of
    them comes soon."""
    random.seed(restart)  # one probe in fifteen was due then anyway: in 3 of 1,000 runs some of those come together
    watch = _SharedWatch()
    monkeypatch.setattr("sidecar.health_poller.FolderWatch", lambda _: watch)
    back_at = 600.0 + restart / 30

    async def firsts() -> list[float]:
        adapters = [_Adapter(back_at) for _ in range(sidecars)]
        ready = [asyncio.Event() for _ in adapters]
        pollers = [
            _poller(each, tmp_path, heard.set, (n + 0.5) / sidecars)
            for n, (each, heard) in enumerate(zip(adapters, ready, strict=True))
        ]
        pollings = [asyncio.create_task(poller.run()) for poller in pollers]
        asyncio.get_running_loop().call_at(back_at, watch.touch, tmp_path / "adapter.sock")
        await asyncio.gather(*(heard.wait() for heard in ready))
        for polling in pollings:
            polling.cancel()
        return [next(at for at in each.probes if at >= back_at) - back_at for each in adapters]

    found = run(firsts())
    assert max(Counter(int(first * 10) for first in found).values()) <= 0.30 * sidecars
    assert max(found) <= Limits().health_poll_seconds + 0.1
