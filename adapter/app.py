"""Wiring, in one place: configuration and keys in, a listening adapter out."""

import contextlib
import logging
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from aiohttp import web

from adapter.backup_keeper import BackupKeeper
from adapter.broker import Broker
from adapter.config import policy_of
from adapter.contracts import load_registry
from adapter.core.routing import Topology
from adapter.hooks import ways_of
from adapter.http.auth import LinkAuth
from adapter.http.backups import BackupRequests
from adapter.http.browse import Browse
from adapter.http.dead_letters import DeadLetters
from adapter.http.governor import GovernorInbox
from adapter.http.health import Health
from adapter.http.receive import Receive
from adapter.http.replays import Replays
from adapter.http.roster import Roster
from adapter.http.scheduled import Scheduled
from adapter.http.submit import Submit
from adapter.http.surface import backup_routes, inbox_routes, routes
from adapter.http.topology import TopologyVersions
from adapter.log_watch import LogWatch
from adapter.notifier import Notifier
from adapter.store.backups import newest_verified
from adapter.store.engine import Store
from adapter.store.ladder import Ladder
from adapter.store.repairing import discard_repair
from adapter.store.restoring import discard_restore
from adapter.store_watch import StoreWatch
from shared.clock import Clock
from shared.config import Config, check_socket_path
from shared.database import LOCK_PATIENCE_SECONDS, StoreLock
from shared.journal import Journal
from shared.keys import KeyMissing, Keyring, find_keyring, load_keyring
from shared.lifecycle import serving
from shared.names import GOVERNOR
from shared.service_manager import announced, passed_listener
from shared.sockets import unix_door
from shared.times import MICROSECONDS
from shared.web.routes import SIGNATURE
from shared.web.service import Service

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def adapter(config: Config) -> AsyncIterator[None]:
    """A serving adapter. Raises `ConfigurationFault` or `KeyFault` for what a restart would not mend."""
    check_socket_path(config.adapter_socket)
    clock = Clock()
    registry = load_registry(config.paths.contracts, config.rate_classes)
    keyrings, warnings = _keyrings(config)
    roster = Roster(Topology.of(config), keyrings, _key_folders(config))
    auth = LinkAuth(roster, clock)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(StoreLock(config.adapter_state, LOCK_PATIENCE_SECONDS).release)
        _discard_left(config.adapter_store)
        limits = config.limits
        store = Store(config.adapter_store, config.membership, policy_of(config), clock, limits.store_probe_seconds)
        store.on_topology = roster.adopt
        journal = Journal("multiclaw-adapter", config.adapter_state, clock)
        broker, ways = Broker(store, clock), ways_of(config.escalation, journal)
        watch = StoreWatch(journal, ways, clock)
        store.mending.ladder = Ladder(config.adapter_store, clock)
        store.mending.ladder.newest_backup = partial(newest_verified, config.backup_folder)
        store.mending.ladder.on_end, store.mending.on_damage = watch.ended, watch.damaged
        await stack.enter_async_context(watch.running())
        await store.start()
        stack.push_async_callback(store.close)
        submit = Submit(broker, auth, roster, registry, clock, limits.envelope_bytes_max)
        receive = Receive(broker, store, roster, limits.poll_wait_seconds_max)
        dead_letters = DeadLetters(broker, store, roster, clock)
        replays, browse = Replays(broker, store, roster), Browse(store, roster, registry)
        topology = TopologyVersions(broker, store, roster)
        notifier, log_watch = Notifier(broker, store, ways), LogWatch(broker, store.log)
        backups = BackupKeeper(broker, store, config.backups, config.backup_folder, clock)
        parts = (notifier, backups, log_watch)
        health = Health(store, lambda: [*warnings, *(each for part in parts for each in part.troubles)], backups.state)
        scheduled = Scheduled(broker, store, roster)
        table = routes(submit, receive, browse, dead_letters, replays, topology, health, scheduled=scheduled)
        table += [*inbox_routes(GovernorInbox(broker, store)), *backup_routes(BackupRequests(backups, store))]
        service = Service("Multiclaw adapter", table, auth.guard, auth.seal, SIGNATURE)
        runner = await stack.enter_async_context(serving(service.server()))
        stack.push_async_callback(broker.close)
        for part in parts:
            await stack.enter_async_context(part.running())
        passed = passed_listener(config.adapter_socket, os.environ)
        listener = stack.enter_context(unix_door(config.adapter_socket, passed))
        site = web.SockSite(runner, listener, backlog=1024)
        await site.start()
        stack.push_async_callback(site.stop)
        scan_us = int(config.integrity.full_scan_hours * 3_600 * MICROSECONDS)
        await stack.enter_async_context(store.integrity.watching(scan_us, store.committed))
        _log.info("ready: at %s", config.adapter_socket)
        await stack.enter_async_context(journal.handing_in())
        await stack.enter_async_context(announced(health.standing))
        yield


def _key_folders(config: Config) -> tuple[Path, ...]:
    return config.paths.keys, config.handed_keys


def _discard_left(store: Path) -> None:
    """What a repair or a restore has left that was killed is as large as the store, and of no use."""
    try:
        discard_repair(store)
        discard_restore(store)
    except OSError as error:
        _log.warning("left-behind: %s; remove it by hand", error)


def _keyrings(config: Config) -> tuple[dict[str, Keyring], list[str]]:
    """The keys of all who may speak on the link, and what is missing that can be done without.

    Deployments made before there was a Governor's inbox have no key for it: nobody reads it then, and all else works.
    """
    keyrings = {agent: find_keyring(_key_folders(config), agent) for agent in config.agents}
    try:
        keyrings[GOVERNOR] = load_keyring(config.paths.keys, GOVERNOR)
    except KeyMissing as fault:
        _log.warning("governor-key-missing: %s", fault)
        return keyrings, [str(fault)]
    return keyrings, []
