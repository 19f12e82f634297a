"""The ways to tell of an alarm: a configured command, and a message to each orchestrator through its own sidecar."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from multiclaw.client import Agent, ConfigurationError, InvalidMessage, SidecarError
from multiclaw.watch.core.alarm import CONTRACT, Alarm
from shared.config import Config
from shared.hook_command import HookFailed, run_hook
from shared.names import direct_channel
from shared.strict_json import encode

COMMAND: Final = "command"

_RETRY_SECONDS: Final = 1.0
"""A sidecar that is just restarted; what is away for longer is tried again later, by the alarm that is next then."""

Tell = Callable[[Alarm], Awaitable[None]]
"""Tells of one alarm, which may have been told before; raises `NotTold`."""


class NotTold(Exception):  # noqa: N818 - what became of it
    """Why nobody was told. `for_good`: trying again will not help."""

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


def ways_of(config: Config) -> Mapping[str, Tell]:
    """What the configuration asks for, by name."""
    ways: dict[str, Tell] = {}
    watch = config.watch
    if watch.command:
        ways[COMMAND] = _command(watch.command, watch.hook_seconds)
    if watch.agents:
        for name in config.orchestrators:
            ways[agent_way(name)] = _agent(name, config.sidecar_socket(name))
    return ways


def agent_way(name: str) -> str:
    """The name of the way to an agent."""
    return f"agent {name}"


def is_agent_way(way: str) -> bool:
    """Whether an agent is told by it."""
    return way != COMMAND


def _command(command: Sequence[str], seconds: float) -> Tell:
    async def tell(alarm: Alarm) -> None:
        try:
            await run_hook(command, encode(alarm.document()), seconds)
        except HookFailed as failure:
            raise NotTold(str(failure)) from failure

    return tell


def _agent(name: str, socket: Path) -> Tell:
    """Through its own sidecar, in its own name: no key but its own is needed, nor the adapter. The id of the alarm is
    the key of the message, so that the agent gets it once however often it is told."""

    async def tell(alarm: Alarm) -> None:
        try:
            async with Agent(name, socket=socket, retry_seconds=_RETRY_SECONDS) as agent:
                await agent.send(direct_channel(name), CONTRACT, alarm.payload(), idempotency_key=alarm.id)
        except SidecarError as error:
            if error.type == "idempotency-conflict":
                return  # it was told of this alarm before, by a version that put it in other words
            raise NotTold(str(error), for_good=not error.retryable) from error
        except (InvalidMessage, ConfigurationError) as error:
            raise NotTold(str(error), for_good=True) from error

    return tell
