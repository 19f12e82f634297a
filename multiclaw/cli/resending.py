"""`dead-letters resend`: a dead letter edited and sent anew, by the orchestrator."""

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from multiclaw.cli.acting import act_as
from multiclaw.cli.content import read_content
from multiclaw.cli.exits import FAILED, Exit
from multiclaw.cli.options import CONFIG_DEFAULT, AsAgent, AsJson, ConfigPath
from multiclaw.cli.places import Place, item_at
from multiclaw.cli.receipts import receipt_document, receipt_sentence
from multiclaw.client import Agent, Receipt


def resend(  # noqa: PLR0913 - one parameter for each option
    place: Place,
    *,
    to: Annotated[str | None, typer.Option(metavar="CHANNEL", help="Where to; its recipient where left out.")] = None,
    contract: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Another contract.")] = None,
    payload: Annotated[str | None, typer.Option(metavar="JSON", help="Other content; - reads standard input.")] = None,
    payload_file: Annotated[str | None, typer.Option(metavar="FILE", help="A file with other content, or -.")] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Open the content in $EDITOR first.")] = False,
    key: Annotated[str | None, typer.Option(metavar="UUID", help="Repeats an earlier one, never doubles it.")] = None,
    as_agent: AsAgent = "orchestrator",
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Send it anew with other content, in its task and thread; the old one is closed and names the new one."""
    item = item_at(place)

    async def read(agent: Agent) -> dict[str, Any]:
        return await agent.dead_letters.read(*item)

    letter = act_as(config, as_agent, read)
    content = letter["envelope"]["payload"]
    if payload is not None or payload_file is not None:
        content = read_content(payload, payload_file)

    def send(content: Any) -> Receipt:
        async def act(agent: Agent) -> Receipt:
            return await agent.dead_letters.resend(letter, payload=content, to=to, type=contract, idempotency_key=key)

        return act_as(config, as_agent, act)

    if edit:
        with _edited(content) as changed:
            receipt = send(changed)
    else:
        receipt = send(content)
    print(json.dumps(receipt_document(receipt)) if as_json else receipt_sentence(receipt))


@contextmanager
def _edited(content: Any) -> Iterator[Any]:
    """What a person makes of it in an editor. Where it then cannot be sent, their words are kept."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="resend-", delete=False, encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False, indent=2)
        file.write("\n")
    path = Path(file.name)
    try:
        _open_editor(path)
        yield read_content(None, str(path))
    except Exit as end:
        kept = f"what you wrote is kept; mend it, and add: --payload-file {path}"
        raise Exit(end.status, f"{end.words}\n{kept}") from end
    path.unlink()


def _open_editor(path: Path) -> None:
    """The editor that this person has chosen, until they are done with it."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), path], check=False)  # noqa: S603 - the user's own choice
    except OSError as error:
        raise Exit(FAILED, f"the editor {editor!r} cannot be started: {error.strerror}; set EDITOR") from error
    if done.returncode:
        raise Exit(FAILED, f"the editor ended with {done.returncode}, so nothing was sent")
