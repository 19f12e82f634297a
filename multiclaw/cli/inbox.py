"""`governor`: the inbox of the Human Governor, which humans read."""

import json
from typing import Annotated, Any, Final

import typer

from multiclaw.cli.acting import printable
from multiclaw.cli.exits import FAILED, Exit
from multiclaw.cli.governing import Governor, governor
from multiclaw.cli.options import CONFIG_DEFAULT, AsJson, ConfigPath, load_config
from shared.link import INBOX_PATH, READ_PATH, ROOT

_SEQUENCES_MAX: Final = 1_000  # of one request
_MARKS: Final = {"acked": " (read)", "dead": " (dead)"}


def register(application: typer.Typer) -> None:
    """Add the verbs of this file."""
    group = typer.Typer(no_args_is_help=True, help="What was told to the Human Governor: see it, mark it as read.")
    group.command()(inbox)
    group.command()(read)
    application.add_typer(group, name="governor")


def inbox(
    everything: Annotated[bool, typer.Option("--all", help="What has been read, too.")] = False,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List what no human has read, the oldest first. Looking changes nothing."""
    found = _pages(governor(config, load_config(config)), everything=everything)
    if as_json:
        print(json.dumps({"messages": found}))
        return
    for message in found:
        print(_line(message))


def read(
    sequences: Annotated[list[int] | None, typer.Argument(metavar="[SEQUENCE]...", min=1)] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are unread; each is printed.")] = False,
    config: ConfigPath = CONFIG_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Mark messages as read, by the numbers that inbox lists."""
    if bool(sequences) == everything:
        raise typer.BadParameter("name messages by their numbers, or say --all")
    human = governor(config, load_config(config))
    shown = _pages(human, everything=False) if everything else []
    wanted = sequences or [message["envelope"]["channel_sequence_id"] for message in shown]
    answer = _mark(human, wanted)
    if as_json:
        print(json.dumps(answer))
    else:
        for line in map(_line, shown) if everything else (f"read {number}" for number in answer["read"]):
            print(line)
    if answer["missing"]:
        raise Exit(FAILED, f"not in the inbox: {', '.join(map(str, answer['missing']))}")


def _pages(human: Governor, *, everything: bool) -> list[dict[str, Any]]:
    """All that is to be listed, however many pages it takes."""
    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = human.get(f"{INBOX_PATH.removeprefix(ROOT)}?all={str(everything).lower()}&after={after}")
        found += page["messages"]
        after = page["next"]
    return found


def _mark(human: Governor, sequences: list[int]) -> dict[str, list[int]]:
    total: dict[str, list[int]] = {"read": [], "missing": []}
    for start in range(0, len(sequences), _SEQUENCES_MAX):
        answer = human.post(READ_PATH.removeprefix(ROOT), {"sequences": sequences[start : start + _SEQUENCES_MAX]})
        total = {name: numbers + answer[name] for name, numbers in total.items()}
    return total


def _line(message: dict[str, Any]) -> str:
    envelope = message["envelope"]
    payload = envelope["payload"]
    said = payload.get("summary") if isinstance(payload, dict) else None
    words = said if isinstance(said, str) else json.dumps(payload, ensure_ascii=False)
    mark = _MARKS.get(message["status"], "")
    head = "{channel_sequence_id} {timestamp_iso8601} {type} from {sender}".format(**envelope)
    return printable(f"{head}{mark}: {words}")
