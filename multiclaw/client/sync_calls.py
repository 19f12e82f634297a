"""How a call of the client that is a coroutine becomes a plain one."""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Call(Protocol):
    """Runs a coroutine to its end, wherever the loop is."""

    def __call__(self, work: Coroutine[Any, Any, R], /) -> R:
        """Its result."""


def plain(method: Callable[P, Coroutine[Any, Any, R]], call: Call) -> Callable[P, R]:
    """The method without `async`: same arguments, same answer."""

    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        return call(method(*args, **kwargs))

    return called
