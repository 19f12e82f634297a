"""The content of a message as a shell gives it: an argument, a file, or standard input."""

import os
import sys
from pathlib import Path
from typing import Any, Final

import typer

from multiclaw.cli.exits import FAILED, Exit
from shared.problems import Problem
from shared.strict_json import decode

_STDIN: Final = "-"


def read_content(text: str | None, file: str | None) -> Any:
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
