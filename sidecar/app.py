"""One sidecar, wired: every part is made here and given what it needs."""

import contextlib
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from aiohttp import web

from shared.background import beside
from shared.clock import Clock
from shared.config import Config, ConfigurationFault, Limits, load
from shared.database import LOCK_PATIENCE_SECONDS, StoreLock
from shared.journal import Journal
from shared.keys import Keyring, create_private, load_keyring
from shared.lifecycle import serving
from shared.names import hint
from shared.priorities import Priorities
from shared.problems import Problem
from shared.service_manager import announced, passed_listener
from shared.sockets import unix_door
from shared.times import MICROSECONDS
from shared.web.routes import Call
from shared.web.service import Service
from sidecar.acknowledger import Acknowledger
from sidecar.breaker import LinkBreaker
from sidecar.changes import Changes
from sidecar.core.conditions import CALM_US
from sidecar.core.outbox_bounds import DEAD_MAX, OutboxBounds
from sidecar.counters import Counters
from sidecar.forgetter import Forgetter
from sidecar.gateway.dead_letters import DeadLetters
from sidecar.gateway.emergencies import Emergencies
from sidecar.gateway.outbox import OutboxAccess
from sidecar.gateway.receiving import Receiving
from sidecar.gateway.replays import Replays
from sidecar.gateway.scheduled import Scheduled
from sidecar.gateway.sending import Sending
from sidecar.gateway.state import State
from sidecar.gateway.table import routes
from sidecar.gateway.topology import Topology
from sidecar.gateway.viewing import Viewing
from sidecar.guard import Peers, guard, peers_of
from sidecar.health_poller import HealthPoller
from sidecar.link import Link
from sidecar.monitor import Monitor, Watched
from sidecar.receiver import Receiver
from sidecar.recipients import Recipients
from sidecar.recovery import Recovery
from sidecar.sender import Sender
from sidecar.store.deferred_acks import DeferredAcks
from sidecar.store.outbox import Outbox
from sidecar.store.seen import Seen
from sidecar.store.store import Store, open_store
from sidecar.submitter import Submitter

_log = logging.getLogger(__name__)

_LOOPBACK: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 32


@asynccontextmanager
async def application(config_path: Path, agent: str) -> AsyncIterator[None]:
    """Serve `agent` until the block ends. Raises `ConfigurationFault` or `KeyFault` before anything is served.

    It needs no adapter to start: agents are served at once, and sends are queued until there is one.
    """
    config = load(config_path)
    if agent not in config.agents:
        raise ConfigurationFault(f"{config_path} has no agent {agent!r}.{hint(agent, config.agents)}")
    keyring = load_keyring(config.paths.keys, agent)
    passed = passed_listener(config.sidecar_socket(agent), os.environ)
    with _locked(config.sidecar_state(agent)):
        token = _token(config.token_file(agent))
        clock, changes = Clock(), Changes()
        async with open_store(config.sidecar_store(agent), clock, changes.tell) as store:
            peers = Peers(os.geteuid()) if passed is None else peers_of(config.sidecar_socket(agent).stat())
            check = guard(agent, token, peers, development=config.deployment.development)
            recipients = Recipients(config_path, config)
            sidecar = _Sidecar(config, recipients, agent, keyring, store, check, clock=clock, changes=changes)
            async with (
                sidecar.running(),
                serving(sidecar.service.server()) as runner,
                _listening(config, agent, runner, passed),
                announced(store.standing),
            ):
                try:
                    yield
                finally:
                    sidecar.stop()


class _Sidecar:
    """The parts of one sidecar."""

    def __init__(  # noqa: PLR0913 - what one sidecar is made from
        self,
        config: Config,
        recipients: Recipients,
        agent: str,
        keyring: Keyring,
        store: Store,
        check: Callable[[Call], None],
        *,
        clock: Clock,
        changes: Changes,
    ) -> None:
        limits = config.limits
        counters = Counters()
        self._store = store
        self._clock = clock
        self._breaker = LinkBreaker(limits.breaker_failures, clock, changes.tell, quiet_us=_quiet_us(limits))
        self._link = Link(
            config.adapter_socket, keyring, clock, self._breaker, counters, limits.link_timeout_seconds, changes.tell
        )
        priorities = Priorities(config.paths.contracts)
        self._outbox = Outbox(store, clock, _bounds(limits), priorities.critical, changes.tell)
        self._deferred = DeferredAcks(store)
        self._seen = Seen()
        submitter = Submitter(self._link, clock)
        self._sender = Sender(submitter, self._outbox, self._breaker, recipients.check, counters)
        self._recovery = Recovery(
            self._link, submitter, self._outbox, self._deferred, self._breaker, counters, self._sender.drained
        )
        acknowledger = Acknowledger(self._link, store, self._seen, self._deferred, clock, counters)
        self._receiver = Receiver(self._link, self._breaker, store, self._seen, acknowledger, counters)
        self._poller = HealthPoller(
            self._link,
            self._breaker,
            config.adapter_socket,
            limits,
            place=(list(config.agents).index(agent) + 0.5) / len(config.agents),
            on_ready=self._adapter_is_ready,
            changed=changes.tell,
        )
        self._journal = journal = Journal("multiclaw-sidecar", config.sidecar_state(agent), clock)
        away_us_max = int(limits.breaker_alarm_seconds * MICROSECONDS)
        watched = Watched(clock, self._breaker, self._poller, self._link, self._outbox, store, away_us_max)
        self._monitor = Monitor(agent, watched, changes, journal, counters)
        state = State(agent, watched, self._deferred, counters, self._monitor)
        table = routes(
            Sending(agent, limits.envelope_bytes_max, self._sender, clock),
            Receiving(self._receiver, acknowledger, limits.poll_wait_seconds_max),
            Viewing(self._link),
            DeadLetters(self._link),
            Replays(self._link),
            state,
            Emergencies(agent, journal),
            topology=Topology(self._link),
            scheduled=Scheduled(self._link),
            outbox=OutboxAccess(agent, self._outbox, store, priorities.critical, journal, clock, counters),
            envelope_bytes_max=limits.envelope_bytes_max,
        )
        self.service = Service(f"Multiclaw sidecar of {agent}", table, check)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Everything but the surface: what was durable is loaded, the adapter is probed, and all of it ends well."""
        await self._outbox.load()
        await self._deferred.load()
        await self._seen.load(self._store)
        await self._monitor.load()
        forgetter = Forgetter(self._store, self._link, self._clock)
        try:
            async with beside(self._poller.run(), forgetter.run(), self._monitor.run()), self._journal.handing_in():
                yield
        finally:
            await self._end()

    def _adapter_is_ready(self) -> None:
        self._recovery.start()
        self._receiver.adapter_is_ready()

    def stop(self) -> None:
        """Before the surface closes: open polls are answered, open sends get a moment and are queued after it."""
        self._receiver.stop()
        self._sender.stop()
        self._link.stop()

    async def _end(self) -> None:
        await self._recovery.stop()
        await self._sender.drained()
        await self._receiver.stopped()
        save_seen = self._seen.take_unsaved()
        if save_seen is not None:
            with contextlib.suppress(Problem):  # the store fails; gaps may then be told once more
                await self._store.commit(save_seen)
        await self._link.close()


def _quiet_us(limits: Limits) -> int:
    """Longer than any request may take, by as much as ends a trouble of single events."""
    return CALM_US + int((limits.poll_wait_seconds_max + limits.link_timeout_seconds) * MICROSECONDS)


def _bounds(limits: Limits) -> OutboxBounds:
    age_us_max = int(limits.outbox_days_max * 86_400 * MICROSECONDS)
    return OutboxBounds(limits.outbox_max, limits.outbox_reserve, age_us_max, DEAD_MAX)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = StoreLock(folder, LOCK_PATIENCE_SECONDS)
    try:
        yield
    finally:
        lock.release()


def _token(path: Path) -> str:
    """The bearer token; `init` makes it, and where it did not, it is made here."""
    create_private(path, secrets.token_urlsafe(_TOKEN_BYTES) + "\n")
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationFault(f"the token at {path} cannot be read: {error}") from error
    if not token:
        raise ConfigurationFault(f"the token file {path} is empty; remove it, and it is made anew")
    return token


@asynccontextmanager
async def _listening(
    config: Config, agent: str, runner: web.ServerRunner, passed: socket.socket | None
) -> AsyncIterator[None]:
    """Both doors open. The files that lead to them go when the block ends, before the last answers are written."""
    path, port_file = config.sidecar_socket(agent), config.sidecar_port_file(agent)
    tcp = _listen_tcp(config.agents[agent].port)
    with unix_door(path, passed) as unix:
        try:
            await web.SockSite(runner, unix).start()
            await web.SockSite(runner, tcp).start()
            port = tcp.getsockname()[1]
            _write_port(port_file, port)
            _log.info("serving: %s at %s and %s:%d", agent, path, _LOOPBACK, port)
            yield
        finally:
            _remove(port_file)
            for site in runner.sites:
                await site.stop()  # what comes from now on is for the next process, where systemd keeps the socket


def _listen_tcp(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_LOOPBACK, port))
    except OSError as error:
        listener.close()
        raise ConfigurationFault(f"cannot listen at {_LOOPBACK}:{port}: {error.strerror}; choose another") from error
    listener.setblocking(False)
    return listener


def _write_port(path: Path, port: int) -> None:
    """Whole or not at all: a reader never sees half a number. On a disk that is full agents come by the other door."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        fresh.write_text(f"{port}\n", encoding="ascii")
        fresh.replace(path)
    except OSError as error:
        _log.warning("port-not-told: %s: %s", path, error)
        for stale in (fresh, path):
            _remove(stale)


def _remove(path: Path) -> None:
    """Unless the disk takes no changes."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
