"""`python -m tests.support.doomed POINT MODULE:FUNCTION ARGUMENT...`: a process of ours that kills itself with SIGKILL.

POINT is a `MODULE:FUNCTION`, and it dies instead of the first call; or a number, and it dies before this change of the
file system below `DOOMED_FOLDER`, counted from 0: a file opened to be written, a name made, changed or removed.
"""

import importlib
import os
import signal
import sys
from typing import Any, Final, NoReturn

_CHANGES: Final = frozenset({"os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir"})
_WRITING: Final = os.O_WRONLY | os.O_RDWR


def _die(*_: object, **__: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit


def _found(point: str) -> tuple[Any, str]:
    """What a function belongs to, and its name there."""
    module, _, path = point.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for each in outer:
        owner = getattr(owner, each)
    return owner, name


def _die_at_change(number: int, folder: str) -> None:
    left = number

    def hook(event: str, told: tuple[Any, ...]) -> None:
        nonlocal left
        changes = event in _CHANGES or (event == "open" and told[2] & _WRITING)
        if changes and folder in str(told[0]):
            if left == 0:
                _die()
            left -= 1

    sys.addaudithook(hook)


def main(point: str, function: str, *arguments: str) -> None:
    """Live until then."""
    if point.isdigit():
        _die_at_change(int(point), os.environ["DOOMED_FOLDER"])
    else:
        setattr(*_found(point), _die)
    owner, name = _found(function)
    sys.argv = [function, *arguments]
    sys.exit(getattr(owner, name)())


if __name__ == "__main__":
    main(*sys.argv[1:])
