"""Dead letters for code without an event loop."""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar

from multiclaw.client.dead_letters import DeadLetters

P = ParamSpec("P")
R = TypeVar("R")


class Call(Protocol):
    """Runs a coroutine to its end, wherever the loop is."""

    def __call__(self, work: Coroutine[Any, Any, R], /) -> R:
        """Its result."""


class SyncDeadLetters:
    """`DeadLetters` without `async`: same names, same arguments, same answers."""

    def __init__(self, letters: DeadLetters, call: Call) -> None:
        self.page = _plain(letters.page, call)
        self.read = _plain(letters.read, call)
        self.groups = _plain(letters.groups, call)
        self.replay = _plain(letters.replay, call)
        self.resolve = _plain(letters.resolve, call)
        self.resend = _plain(letters.resend, call)
        self.start_replay = _plain(letters.start_replay, call)
        self.replays = _plain(letters.replays, call)
        self.read_replay = _plain(letters.read_replay, call)
        self.cancel_replay = _plain(letters.cancel_replay, call)


def _plain(method: Callable[P, Coroutine[Any, Any, R]], call: Call) -> Callable[P, R]:
    def plain(*args: P.args, **kwargs: P.kwargs) -> R:
        return call(method(*args, **kwargs))

    return plain
