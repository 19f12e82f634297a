"""A bar for work that has several parts, each with its own end."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import TaskID

from adapter.store.full_check import Progress


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on standard error, where that is a terminal."""
    tasks: dict[str, TaskID] = {}
    with Bar(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:

        def progress(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield progress
