"""Reading recorded runs: what is carried, who plays whom, and what a bad line says."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from multiclaw.cli.exits import FAILED, Exit
from multiclaw.demo.corpus import read

AGENTS = ("orchestrator", "pm", "qa")


def line(**fields: Any) -> bytes:
    """One recorded message."""
    row = {"run": "a", "step": 0, "sender": "Boss", "to": None, "kind": "message", "content": "hello"} | fields
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def write(folder: Path, *lines: bytes, name: str = "corpus.jsonl") -> Path:
    """A corpus of these lines."""
    path = folder / name
    data = b"".join(lines)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.jsonl.gz"])
def test_runs_keep_their_order_and_their_content(tmp_path: Path, name: str) -> None:
    """Runs may alternate in the file; each keeps its own order, and every field arrives as it was."""
    lines = [line(run=run, step=step, content=f"{run}{step} \u2028 é 🦀") for step in range(3) for run in "ba"]
    runs = read(write(tmp_path, *lines, name=name), AGENTS, None)
    assert [[(step.run, step.payload["step"]) for step in run] for run in runs] == [
        [("b", 0), ("b", 1), ("b", 2)],
        [("a", 0), ("a", 1), ("a", 2)],
    ]
    assert [step.payload for run in runs for step in run] == sorted(
        map(json.loads, lines), key=lambda r: r["run"] != "b"
    )


def test_speakers_play_agents(tmp_path: Path) -> None:
    """A speaker called like an agent is that agent; others take turns, and stay who they are within a run."""
    rows = [("Boss", None), ("PM", "Boss"), ("Boss", "QA"), ("Fourth", "PM")]
    (run,) = read(write(tmp_path, *(line(sender=sender, to=to) for sender, to in rows)), AGENTS, None)
    assert [(step.agent, step.to) for step in run] == [
        ("orchestrator", "product"),
        ("pm", "@orchestrator"),
        ("orchestrator", "@qa"),
        ("orchestrator", "@pm"),
    ]


def test_only_the_first_runs_are_read_where_that_is_asked(tmp_path: Path) -> None:
    """`--runs 1`."""
    assert len(read(write(tmp_path, line(run="a"), line(run="b")), AGENTS, 1)) == 1


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"{\n", "line 2"),
        (b'"text"\n', "line 2"),
        (b"\xff\n", "line 2"),
        (line(content="x")[:-3] + b"\n", "line 2"),
        (b'{"run":"a","run":"b"}\n', "'run' stands twice"),
        (b'{"run":"a"}\n', "/step: this field is required"),
        (line(run=""), "/run"),
        (line(run="r" * 129), "/run"),
        (line(run=1), "/run"),
        (line(sender=None), "/sender"),
        (line(sender=["Boss"]), "/sender"),
        (line(to=3), "/to"),
        (line(content=None), "/content"),
        (line(content={"text": "x"}), "/content"),
        (line(step="first"), "/step"),
        (line(content="x" * 300_000), "bytes"),
        (b'{"content":"\\ud800"}\n', "line 2"),
    ],
)
def test_a_bad_line_ends_the_verb_with_its_number(tmp_path: Path, bad: bytes, words: str) -> None:
    """One line of words with the file, the line and the field; never a traceback."""
    path = write(tmp_path, line(), bad)
    with pytest.raises(Exit) as end:
        read(path, AGENTS, None)
    assert end.value.status == FAILED
    assert f"{path}, line 2" in end.value.words
    assert words in end.value.words


def test_files_that_are_no_corpus(tmp_path: Path) -> None:
    """Absent, a folder, empty, and gzip that is cut, false or damaged: each in words."""
    whole = gzip.compress(line() * 100)
    files = {
        "cut.gz": whole[:-20],
        "false.gz": line(),
        "damaged.gz": whole[:20] + bytes(20) + whole[40:],
        "empty.jsonl": b"",
        "blank.jsonl": b"\n \n",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for name in (*files, "absent.jsonl", "."):
        with pytest.raises(Exit) as end:
            read(tmp_path / name, AGENTS, None)
        assert str(tmp_path) in end.value.words, name
