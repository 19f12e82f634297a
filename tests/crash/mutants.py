"""Durability, broken on purpose in a scenario's process: what the sweep must notice, or it proves nothing."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest import mock

import adapter.store.engine
import adapter.store.replacing
import adapter.store.reserve
import shared.database.opening
import sidecar.store.store
from adapter.core.handing import Handing
from adapter.store import restoring
from shared.database import connect_to_change, transaction
from shared.database.library import LIBRARY
from shared.database.log_mark import LogMark
from shared.limits import BATCH_MESSAGES_MAX
from sidecar.acknowledger import Acknowledger
from sidecar.recovery import Recovery

_CONNECT = LIBRARY.connect
_HAND_OVER = Handing._hand_over
_REMEMBER = Acknowledger._remember


@contextlib.contextmanager
def mutated(name: str) -> Iterator[None]:
    """Inside, the product is broken in this way; the empty name breaks nothing."""
    with MUTANTS[name]() if name else contextlib.nullcontext():
        yield


def _synchronous(word: str) -> contextlib.AbstractContextManager[Any]:
    class Connection(LIBRARY.Connection):  # type: ignore[misc,name-defined]
        def execute(self, statement: str, *rest: Any) -> Any:
            return super().execute(statement.replace("synchronous=FULL", f"synchronous={word}"), *rest)

    def connect(*arguments: Any, **options: Any) -> Any:
        return _CONNECT(*arguments, **options, factory=Connection)

    return mock.patch.object(LIBRARY, "connect", connect)


class _LateTransaction(transaction):
    """What was done is committed when the next one begins: so after it was answered."""

    def __enter__(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")
        super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            super().__exit__(kind, *rest)


def _answers_first(engine: ModuleType) -> contextlib.AbstractContextManager[Any]:
    """With it goes the log's mark, which asks the log after each unit and would find it in use."""
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(engine, "transaction", _LateTransaction))
    stack.enter_context(mock.patch.object(LogMark, "follow", return_value=None))
    return stack


def _pop_before_ack() -> contextlib.AbstractContextManager[Any]:
    def hand_over(self: Handing, mailbox: Any, claim: Any, store: Any, now: Any) -> Any:
        handed = _HAND_OVER(self, mailbox, claim, store, now)
        for message in handed:
            delivery = mailbox.live[int(message.delivery_id.partition(".")[0], 16)]
            mailbox.ack(delivery)
            self._books.changes.touch(store, now, delivery)
        return handed

    return mock.patch.object(Handing, "_hand_over", hand_over)


def _outbox_emptied_first() -> contextlib.AbstractContextManager[Any]:
    async def drain(self: Recovery) -> bool:
        async with self._outbox.taken(BATCH_MESSAGES_MAX) as entries:
            await self._outbox.settle(entries, [])
            await self._submitter.submit([entry.draft for entry in entries])
        return True

    return mock.patch.object(Recovery, "_drain_batch", drain)


def _processed_forgotten() -> contextlib.AbstractContextManager[Any]:
    async def remember(self: Acknowledger, *_: Any) -> None:
        await _REMEMBER(self, {})

    return mock.patch.object(Acknowledger, "_remember", remember)


def _replacing_file_unsynced() -> contextlib.AbstractContextManager[Any]:
    """Neither as it is copied, nor as it is changed, nor before it is renamed; each of these would do."""

    def connect(path: Path) -> Any:
        connection = connect_to_change(path)
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(adapter.store.replacing, "sync_file"))
    stack.enter_context(
        mock.patch.object(restoring, "copy_file", lambda given, taken: taken.write_bytes(given.read_bytes()))
    )
    stack.enter_context(mock.patch.object(restoring, "connect_to_change", connect))
    return stack


MUTANTS: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "synchronous-normal": lambda: _synchronous("NORMAL"),
    "synchronous-off": lambda: _synchronous("OFF"),
    "adapter-answers-first": lambda: _answers_first(adapter.store.engine),
    "pop-before-ack": _pop_before_ack,
    "sidecar-answers-first": lambda: _answers_first(sidecar.store.store),
    "outbox-emptied-first": _outbox_emptied_first,
    "processed-forgotten": _processed_forgotten,
    "numbers-reserved-later": lambda: mock.patch.object(adapter.store.reserve, "write_durably", Path.write_bytes),
    "replaced-names-unsynced": lambda: mock.patch.object(adapter.store.replacing, "sync_folder"),
    "replacing-file-unsynced": _replacing_file_unsynced,
    "failed-sync-believed": lambda: mock.patch.object(shared.database.opening, "_write_log_again"),
}
"""By name. `synchronous-normal` and `-off` are of both processes."""

FAIL_SYNC_EVERY: Final = {"failed-sync-believed": 37}
"""What breaks only where syncs fail."""

OF_REPLACEMENTS: Final = frozenset({"replaced-names-unsynced", "replacing-file-unsynced"})
"""What only the scenario of replacements plays, which plays nothing else."""
