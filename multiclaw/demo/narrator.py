"""What the demo shows: styled, with a progress bar, on a terminal; plain lines elsewhere."""

import contextlib
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from multiclaw.client import Receipt
from multiclaw.demo.census import Census

_STYLES: Final = {"accepted": "green", "duplicate": "cyan", "queued": "yellow"}
_VIOLATIONS_SHOWN: Final = 20


class Narrator:
    """Tells the story on one console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None

    def act(self, words: str) -> None:
        """A step of the story."""
        self._print(Text(f"== {words}", style="bold"))

    def say(self, words: str) -> None:
        """A remark within a step."""
        self._print(Text(f"   {words}"))

    def sent(self, agent: str, to: str, kind: str, words: str, receipt: Receipt) -> None:
        """A message that left its agent, and what became of it."""
        place = (
            f"queued in {agent}'s outbox, place {receipt.outbox_position}"
            if receipt.status == "queued"
            else f"{receipt.status} as {receipt.channel} {receipt.sequence}"
        )
        line = Text(f"   {agent:>12} -> {to:<12} {kind:<18} ")
        line.append(f"{words:<44} ")
        line.append(place, style=_STYLES[receipt.status])
        self._print(line)

    def alarm(self, words: str) -> None:
        """Something that was broken on purpose."""
        self._print(Text(f"!! {words}", style="bold red"))

    @contextlib.contextmanager
    def progress(self, words: str, total: int) -> Iterator["Bar"]:
        """A bar on a terminal; elsewhere a line each tenth."""
        if not self._console.is_terminal:
            yield Bar(self, words, total)
            return
        columns = (TextColumn("   {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console) as progress:
            yield Bar(self, words, total, progress)

    def census(self, census: Census, seconds: float) -> None:
        """The last word."""
        table = Table("census", "count", title_justify="left")
        table.add_row("sends acknowledged", f"{census.sends:,}")
        table.add_row("  of them first queued in an outbox", f"{census.queued_first:,}")
        table.add_row("deliveries processed", f"{census.deliveries:,}")
        table.add_row("violations", f"{len(census.violations):,}")
        if self._console.is_terminal:
            self._console.print(table)
        else:
            self.say(
                f"{census.sends} sends acknowledged ({census.queued_first} first queued in an outbox), "
                f"{census.deliveries} deliveries processed, {len(census.violations)} violations"
            )
        for violation in census.violations[:_VIOLATIONS_SHOWN]:
            self.alarm(violation)
        if census.clean:
            words = f"clean in {seconds:.1f} s: nothing lost, nothing applied twice, nothing changed, order kept"
            self._print(Text(f"== {words}", style="bold green"))
        else:
            self.alarm(f"not clean: {len(census.violations)} violations")

    def _print(self, line: Text) -> None:
        self._console.print(line, soft_wrap=True)


class Bar:
    """How far a long part has come."""

    def __init__(self, narrator: Narrator, words: str, total: int, progress: Progress | None = None) -> None:
        self._narrator = narrator
        self._words = words
        self._total = total
        self._progress = progress
        self._task = None if progress is None else progress.add_task(words, total=total)
        self._told = 0

    def reach(self, done: int) -> None:
        """`done` of the total are done."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done)
        elif (tenth := done * 10 // max(self._total, 1)) > self._told:
            self._told = tenth
            self._narrator.say(f"{self._words}: {done} of {self._total}")
