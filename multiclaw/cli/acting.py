"""Acting as one agent, through its sidecar: what the verbs that do so share."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from multiclaw.cli.exits import CONFIGURATION, FAILED, UNAVAILABLE, Exit
from multiclaw.cli.options import check_agent, load_config
from multiclaw.client import Agent, ConfigurationError, InvalidMessage, SidecarError, Unavailable

_RETRY_SECONDS: Final = 2.0
"""A person waits, and can press the up arrow: long enough for a sidecar that is just being restarted."""

T = TypeVar("T")


def act_as(config_path: Path, name: str, act: Callable[[Agent], Awaitable[T]]) -> T:
    """Do it as that agent. What the client raises ends the verb with its exit status and what to do next."""
    config = load_config(config_path)
    check_agent(config, name)

    async def run() -> T:
        async with Agent(name, socket=config.sidecar_socket(name), retry_seconds=_RETRY_SECONDS) as agent:
            return await act(agent)

    try:
        return asyncio.run(run())
    except ConfigurationError as error:
        raise Exit(CONFIGURATION, str(error)) from error
    except Unavailable as error:
        next_step = f"see: multiclaw status --config {config_path}"
        raise Exit(UNAVAILABLE, f"{_refusal(error)}\n{next_step}") from error
    except SidecarError as error:
        raise Exit(FAILED, _refusal(error)) from error
    except InvalidMessage as error:
        raise Exit(FAILED, f"the message cannot be carried: {error}") from error


def _refusal(error: SidecarError) -> str:
    """The problem in words. A send that may still have happened is repeated safely with its key."""
    lines = [f"{error.type}: {error.detail}"]
    if error.field:
        lines.append(f"field: {error.field}")
    if error.retryable and error.key is not None:
        lines.append(f"to try again without a risk of sending twice, add: --key {error.key}")
    return "\n".join(lines)


def printable(text: str) -> str:
    """What an agent wrote must not steer the terminal of who reads it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
