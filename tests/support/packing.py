"""Mailboxes that pack early, so that a handful of messages shows what a hundred thousand do."""

import contextlib
from collections.abc import Iterator
from unittest import mock

from adapter.core import backlog, mailbox


@contextlib.contextmanager
def packing(objects_min: int, chunk: int = 2) -> Iterator[None]:
    """Meanwhile a mailbox packs what is behind `objects_min` objects, and brings up `chunk` at a time."""
    with mock.patch.object(mailbox, "OBJECTS_MIN", objects_min), mock.patch.object(backlog, "CHUNK", chunk):
        yield
