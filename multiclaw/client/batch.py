"""Many sends in few requests: each has its own key, its own fate and its own retries."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from multiclaw.client.errors import Refused, SidecarError, from_problem
from multiclaw.client.outgoing import Outgoing, Receipt, receipt
from multiclaw.client.transport import Transport

_BATCH_PATH: Final = "/v1/messages/batch"
_MESSAGES_MAX: Final = 100
"""Sends that one request may hold."""
_BYTES_MAX: Final = 900_000
"""Far below what a sidecar takes; bodies over 1 MiB would hold up the event loop, of which aiohttp warns."""

Outcome = Receipt | SidecarError


async def send_all(transport: Transport, messages: Iterable[Outgoing]) -> list[Outcome]:
    """The outcome of each, in order. Later requests are made also when an earlier one failed."""
    outcomes: list[Outcome] = []
    for chunk in _chunks(messages):
        outcomes += await _send_chunk(transport, chunk)
    return outcomes


def _chunks(messages: Iterable[Outgoing]) -> Iterator[list[Outgoing]]:
    chunk: list[Outgoing] = []
    size = 0
    for message in messages:
        if chunk and (len(chunk) == _MESSAGES_MAX or size + len(message.body) > _BYTES_MAX):
            yield chunk
            chunk, size = [], 0
        chunk.append(message)
        size += len(message.body) + 1
    if chunk:
        yield chunk


async def _send_chunk(transport: Transport, chunk: Sequence[Outgoing]) -> list[Outcome]:
    """Send until none is left whose refusal may pass, within the retry budget."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    outcomes: dict[int, Outcome] = {}
    pending = list(range(len(chunk)))
    for attempt in itertools.count(1):
        outcomes.update(zip(pending, await _attempt(transport, [chunk[at] for at in pending]), strict=True))
        failed = {at: outcome for at in pending if isinstance(outcome := outcomes[at], SidecarError)}
        for at, error in failed.items():
            error.key, error.attempts = chunk[at].key, attempt
        pending = [at for at, error in failed.items() if error.retryable]
        asked = max((failed[at].retry_after or 0.0 for at in pending), default=0.0)
        wait = transport.retry.wait(attempt, transport.chance(), clock() - begun, asked) if pending else None
        if wait is None:
            break
        await asyncio.sleep(wait)
    return [outcomes[at] for at in range(len(chunk))]


async def _attempt(transport: Transport, messages: Sequence[Outgoing]) -> list[Outcome]:
    body = b'{"messages":[' + b",".join(message.body for message in messages) + b"]}"
    try:
        answer = await transport.once("POST", _BATCH_PATH, body)
    except Refused as error:
        if error.retryable or len(messages) == 1:
            return [from_problem(error.status or 400, error.document) for _ in messages]
        # What one message holds can spoil the body of all, a NUL for instance: each on its own, still in order.
        return [outcome for message in messages for outcome in await _attempt(transport, [message])]
    except SidecarError as error:
        return [type(error)(error.status, error.document) for _ in messages]
    return [
        receipt(entry["answer"]) if entry["code"] < 400 else from_problem(entry["code"], entry["problem"])
        for entry in answer["outcomes"]
    ]
