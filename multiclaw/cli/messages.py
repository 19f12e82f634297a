"""`send` and `recv`: act as one agent, through its sidecar."""

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from multiclaw.cli.acting import act_as, printable
from multiclaw.cli.exits import FAILED, Exit
from multiclaw.cli.options import CONFIG_DEFAULT, AsAgent, AsJson, ConfigPath
from multiclaw.client import Agent, Message, Receipt
from shared.limits import POLL_MESSAGES_MAX, POLL_WAIT_SECONDS_MAX
from shared.problems import Problem
from shared.strict_json import decode

_STDIN: Final = "-"


def register(application: typer.Typer) -> None:
    """Add the verbs of this file."""
    application.command()(send)
    application.command()(recv)


def send(  # noqa: PLR0913 - one parameter for each option
    *,
    as_agent: AsAgent,
    to: Annotated[str, typer.Option(metavar="CHANNEL", help="A channel, or @agent.")],
    contract: Annotated[str, typer.Option("--type", metavar="TYPE", help="Contract and version, such as note/1.")],
    payload: Annotated[str | None, typer.Option(metavar="JSON", help="The content; - reads standard input.")] = None,
    payload_file: Annotated[str | None, typer.Option(metavar="FILE", help="A file with the content, or -.")] = None,
    task: Annotated[str | None, typer.Option(metavar="ID", help="The task it is about.")] = None,
    thread: Annotated[str | None, typer.Option(metavar="ID", help="The conversation it belongs to.")] = None,
    key: Annotated[str | None, typer.Option(metavar="UUID", help="Repeats an earlier send, never doubles it.")] = None,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Send a message, and tell how far it got."""
    content = _content(payload, payload_file)

    async def act(agent: Agent) -> Receipt:
        return await agent.send(to, contract, content, task_id=task, thread_id=thread, idempotency_key=key)

    receipt = act_as(config, as_agent, act)
    print(json.dumps(_answer(receipt)) if as_json else _sentence(receipt))


def recv(
    as_agent: AsAgent,
    wait: Annotated[
        float, typer.Option(min=0, max=POLL_WAIT_SECONDS_MAX, metavar="SECONDS", help="For the first message.")
    ] = 0.0,
    count: Annotated[int, typer.Option("--max", min=1, max=POLL_MESSAGES_MAX, help="How many at most.")] = 10,
    ack: Annotated[bool, typer.Option(help="Count them as processed, or look only and give them back.")] = True,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until interrupted.")] = False,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Receive messages: one line each, with --json one document each. Each is acknowledged after it was printed."""
    if follow and not ack:
        raise typer.BadParameter("--follow with --no-ack would show the same messages for ever")

    async def act(agent: Agent) -> None:
        if follow:
            async with contextlib.aclosing(agent.messages(max=count)) as messages:
                async for message in messages:
                    await _take([message], ack=True, as_json=as_json)
        else:
            await _take(await agent.poll(wait, count), ack=ack, as_json=as_json)

    act_as(config, as_agent, act)


def _content(text: str | None, file: str | None) -> Any:
    """The payload, strictly read: what would not arrive as it was written is refused."""
    if (text is None) == (file is None):
        raise typer.BadParameter("give one of --payload JSON and --payload-file FILE ('-' reads standard input)")
    name = "--payload" if file is None else file
    try:
        if _STDIN in {text, file}:
            name, data = "standard input", sys.stdin.buffer.read()
        else:
            data = os.fsencode(text) if text is not None else Path(str(file)).read_bytes()
        return decode(data)
    except OSError as error:
        raise Exit(FAILED, f"{name} cannot be read: {error.strerror}") from error
    except Problem as problem:
        where = f" (at {problem.field})" if problem.field else ""
        example = """a JSON text needs its quotes, and the shell eats them: --payload '{"text": "hello"}'"""
        raise Exit(FAILED, f"{name} is not acceptable JSON: {problem.detail}{where}\n{example}") from problem


def _answer(receipt: Receipt) -> dict[str, Any]:
    """The answer with the names that the API gives it."""
    if receipt.status == "queued":
        return {"status": "queued", "outbox_position": receipt.outbox_position, "idempotency_key": receipt.key}
    return {
        "status": receipt.status,
        "channel": receipt.channel,
        "channel_sequence_id": receipt.sequence,
        "timestamp_iso8601": receipt.timestamp,
        "idempotency_key": receipt.key,
        "recipients": [dataclasses.asdict(recipient) for recipient in receipt.recipients],
    }


def _sentence(receipt: Receipt) -> str:
    if receipt.status == "queued":
        return f"queued in the outbox of the sidecar, place {receipt.outbox_position}; key {receipt.key}"
    reached = ", ".join(f"{recipient.agent} {recipient.status}" for recipient in receipt.recipients)
    return f"{receipt.status} as {receipt.channel}#{receipt.sequence}: {reached}; key {receipt.key}"


async def _take(messages: Sequence[Message], *, ack: bool, as_json: bool) -> None:
    """Print, then acknowledge. What was not acknowledged, whatever the reason, is given back, the last one first."""
    try:
        for message in messages:
            print(_document(message) if as_json else _line(message), flush=True)
            if ack:
                await message.ack()
    finally:
        for message in reversed(messages):
            if message.settled is None:
                await message.nack("release")


def _document(message: Message) -> str:
    return json.dumps(
        {
            "delivery_id": message.delivery_id,
            "attempt": message.attempt,
            "redelivered": message.redelivered,
            "lease_expires_at": message.lease_expires_at,
            "envelope": message.envelope,
        }
    )


def _line(message: Message) -> str:
    task = f" task {message.task_id}" if message.task_id else ""
    payload = json.dumps(message.payload, ensure_ascii=False)
    return printable(f"{message.to}#{message.sequence} {message.sender} {message.type}{task} {payload}")
