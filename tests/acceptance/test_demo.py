"""`multiclaw demo` as a newcomer runs it: a program that tells its story and ends with 0 when nothing was lost."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.invariant import read_store

MULTICLAW = Path(sys.executable).with_name("multiclaw")
_SECONDS_MAX = 100


def demo(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The demo, run to its end; its words are plain lines, since nobody watches."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MULTICLAW_")}
    return subprocess.run(  # noqa: S603 - our own program
        [MULTICLAW, "demo", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        env={**environment, "PYTHONUTF8": "1"},
        check=False,
    )


def row(**fields: Any) -> bytes:
    """One recorded message."""
    message = {"run": "r1", "step": 0, "sender": "Planner", "to": None, "kind": "message", "content": "hello"}
    return json.dumps(message | fields, ensure_ascii=False).encode() + b"\n"


def test_the_conversation_survives_the_kill_and_the_census_is_clean(short_folder: Path) -> None:
    """The kill, the outboxes, the restart and the clean census are all told, and the stores say the same."""
    told = demo("--keep", short_folder)
    assert told.returncode == 0, told.stdout + told.stderr
    story = iter(told.stdout.splitlines())
    for words in (
        "started 7 processes",
        "orchestrator -> all-agents",
        "killed with SIGKILL",
        "queued in pm's outbox, place 1",
        "outboxes hold",
        "the adapter is back",
        "0 violations",
        "nothing lost, nothing applied twice, nothing changed, order kept",
    ):
        assert any(words in line for line in story), f"{words!r} is missing or out of place in:\n{told.stdout}"
    assert "\x1b" not in told.stdout
    census = read_store(short_folder / "state" / "adapter" / "store.db").census()
    assert set(census) == {"acked"}
    assert f"{census.total()} deliveries processed" in told.stdout


def test_a_recorded_run_of_any_text_arrives_byte_for_byte(short_folder: Path) -> None:
    """94 KB of content, and every kind of character that JSON can carry, with the adapter killed half-way."""
    odd = "".join(chr(point) for point in range(1, 0x2100)) + "\u2028\u2029\ufeff\uffff\U0001f980\U0010ffff"
    contents = [
        "",
        odd,
        "x" * 94_000,
        "日本語" * 10_000,
        '{"not":"parsed"}',
        "\r\n\t\\\"'",
        "e\u0301 \u00e9",
        "\U0001d11e" * 5_000,
    ]
    rows = [
        row(
            run=f"r{run}",
            step=step,
            sender=("Planner", "qa", "Coder 2")[step % 3],
            to=(None, "PM")[step % 2],
            content=content,
        )
        for run in range(4)
        for step, content in enumerate(contents)
    ]
    corpus = short_folder / "corpus.jsonl"
    corpus.write_bytes(b"".join(rows))
    kept = short_folder / "kept"
    told = demo("--corpus", corpus, "--keep", kept)
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-4000:]
    assert f"replaying 4 recorded runs: {len(rows)} messages" in told.stdout
    assert "0 violations" in told.stdout
    stored = [message.envelope["payload"] for message in read_store(kept / "state" / "adapter" / "store.db").messages]
    for run in range(4):
        arrived = {payload["step"]: payload["content"] for payload in stored if payload["run"] == f"r{run}"}
        assert arrived == dict(enumerate(contents))
    assert len(stored) == len(rows)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b'{"run":"r1","step":1\n', "line 2"),
        (row(sender=None), "line 2: /sender"),
        (b"\xff\xfe\n", "line 2"),
        (row(content="x" * 300_000), "line 2"),
    ],
    ids=["cut", "no sender", "no text", "too large"],
)
def test_a_corrupted_corpus_ends_with_one_clear_line(tmp_path: Path, bad: bytes, words: str) -> None:
    """Exit 1 before anything is started; file, line and reason in one line, no traceback."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_bytes(row() + bad)
    told = demo("--corpus", corpus)
    assert told.returncode == 1
    assert told.stdout == ""
    (line,) = told.stderr.splitlines()
    assert f"{corpus}, {words}" in line


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    """`--keep` never plays over what is there."""
    (tmp_path / "precious").write_text("precious")
    told = demo("--keep", tmp_path)
    assert told.returncode == 1
    assert "is not empty" in told.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
