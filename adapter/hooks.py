"""The ways to tell a human: an entry in the journal, a configured command, a configured webhook."""

import asyncio
import ssl
from collections.abc import Mapping
from http import HTTPStatus

import aiohttp

from adapter.core.notice import Notice
from adapter.notifier import NotToldError, Tell
from shared.escalation import Escalation
from shared.hook_command import HookFailed, run_hook
from shared.journal import Entry, Journal
from shared.journal_events import GOVERNOR_ESCALATION
from shared.strict_json import encode


def ways_of(escalation: Escalation, journal: Journal) -> Mapping[str, Tell]:
    """The journal always; the others where they are configured."""
    ways: dict[str, Tell] = {"journal": lambda notice: _record(journal, notice)}
    seconds = escalation.hook_seconds
    if escalation.command:
        command = escalation.command
        ways["command"] = lambda notice: _run(command, notice, seconds)
    if escalation.webhook is not None:
        url = escalation.webhook
        ways["webhook"] = lambda notice: _post(url, notice, seconds)
    return ways


async def _record(journal: Journal, notice: Notice) -> None:
    details = {name: value for name, value in notice.document().items() if name != "envelope"}
    details["payload"] = notice.envelope["payload"]
    await journal.record(Entry(GOVERNOR_ESCALATION, notice.summary, notice.type, notice.sender, details))


async def _run(command: list[str], notice: Notice, seconds: float) -> None:
    """The notice as JSON on its standard input."""
    try:
        await run_hook(command, encode(notice.document()), seconds)
    except HookFailed as failure:
        raise NotToldError(str(failure)) from failure


async def _post(url: str, notice: Notice, seconds: float) -> None:
    """One POST of JSON, which must be answered with 2xx; redirections are not followed."""
    body, headers = encode(notice.document()), {"Content-Type": "application/json", "User-Agent": "multiclaw"}
    tls = await asyncio.to_thread(ssl.create_default_context)  # in a thread: it reads every certificate of the host
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False, ssl=tls) as answer,
        ):
            status = answer.status
    except TimeoutError as error:
        raise NotToldError(f"the webhook took longer than {seconds:g} s") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise NotToldError(f"the webhook cannot be reached: {error}") from error
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise NotToldError(f"the webhook answered {status}")
