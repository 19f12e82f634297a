"""`send` and `recv`: act as one agent, through its sidecar."""

import contextlib
import json
from collections.abc import Sequence
from typing import Annotated

import typer

from multiclaw.cli.acting import act_as, printable
from multiclaw.cli.content import read_content
from multiclaw.cli.options import CONFIG_DEFAULT, AsAgent, AsJson, ConfigPath
from multiclaw.cli.receipts import receipt_document, receipt_sentence
from multiclaw.client import Agent, Message, Receipt
from shared.limits import POLL_MESSAGES_MAX, POLL_WAIT_SECONDS_MAX


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
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="Not before this RFC 3339 time.")] = None,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Send a message, now or at its time, and tell how far it got."""
    content = read_content(payload, payload_file)

    async def act(agent: Agent) -> Receipt:
        return await agent.send(
            to, contract, content, task_id=task, thread_id=thread, idempotency_key=key, deliver_at=at
        )

    receipt = act_as(config, as_agent, act)
    print(json.dumps(receipt_document(receipt)) if as_json else receipt_sentence(receipt))


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
