"""A configured command that is told something, as JSON on its standard input."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence


class HookFailed(Exception):  # noqa: N818 - what became of it
    """Why the command cannot be taken to have been told."""


async def run_hook(command: Sequence[str], document: bytes, seconds: float) -> None:
    """Run it with no shell; raises `HookFailed` unless it ends with 0 in time. Past its time it is killed, with all it
    started; so it is when the caller is cancelled."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, start_new_session=True
        )
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else str(error)
        raise HookFailed(f"{command[0]} cannot be started: {words}") from error
    try:
        async with asyncio.timeout(seconds):
            await process.communicate(document)
    except TimeoutError as error:
        raise HookFailed(f"{command[0]} took longer than {seconds:g} s") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise HookFailed(f"{command[0]} ended with status {process.returncode}")
