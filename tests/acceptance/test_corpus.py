"""The recorded runs of real agents, replayed whole through real processes."""

import gzip
import json
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_demo import demo
from tests.support.invariant import read_store

_VARIABLE = "MULTICLAW_CORPUS"


@pytest.mark.corpus
def test_every_recorded_message_arrives_unchanged_and_in_order(short_folder: Path) -> None:
    """Every line of the file stands in the store once, byte for byte, in the order of its sender, and is acked by
    every recipient. (Between senders there is no order while the adapter is away: each has an outbox of its own.)"""
    if _VARIABLE not in os.environ:
        pytest.skip(f"{_VARIABLE} does not name the file of recorded runs")
    corpus = Path(os.environ[_VARIABLE])
    told = demo("--corpus", corpus, "--keep", short_folder)
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-4000:]
    view = read_store(short_folder / "state" / "adapter" / "store.db")
    recorded = [json.loads(line) for line in gzip.decompress(corpus.read_bytes()).splitlines()]
    assert _by_speaker(message.envelope["payload"] for message in view.messages) == _by_speaker(recorded)
    assert set(view.census()) == {"acked"}


def _by_speaker(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """What each speaker of each run said, in order."""
    said: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        said[row["run"], row["sender"]].append((row["step"], row["to"], row["kind"], row["content"].encode()))
    return said
