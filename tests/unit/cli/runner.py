"""Runs a verb in this process, as `main` would."""

import contextlib
import io
from dataclasses import dataclass

import pytest

from multiclaw import cli


@dataclass(frozen=True, slots=True)
class Result:
    """How a verb ended and what it said."""

    status: int
    out: str
    err: str


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Result:
    """The outcome of `multiclaw ARGUMENTS`."""
    monkeypatch.setattr("sys.argv", ["multiclaw", *map(str, arguments)])
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        cli.main()
    code = end.value.code
    return Result(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())
