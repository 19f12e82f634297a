"""Reading units on the adapter's own schema: pruned ranges, pages, cyclic and long lineages."""

import pytest

from adapter.store.reads import read_range, read_steps, read_tree
from shared.problems import Problem
from tests.support.engines import SqliteEngine, ask
from tests.support.factories import exchange, now, send

INTENTS = {"task.assign/1": "assign", "note/1": "inform"}


@pytest.fixture
def engine():
    opened = SqliteEngine()
    yield opened
    opened.close()


def fill(engine, *sends):
    broker = exchange(snapshot=engine.snapshot())
    ask(broker, engine, now(), *sends)


def page(engine, first, final):
    return read_range(engine.connection, engine.names, "product", first, final)


def numbers(found):
    return len(found.envelopes), found.last, found.next


def refusal(engine, first, final):
    with pytest.raises(Problem) as caught:
        page(engine, first, final)
    assert (caught.value.kind, caught.value.field) == ("range-not-retained", "query from")
    return caught.value.extra


def prune(engine, where):
    engine.connection.execute(f"DELETE FROM messages WHERE sequence {where}")  # noqa: S608 - a test's own words


def test_a_range_is_what_is_stored_of_it(engine):
    """Its end may lie in the future, its start may not."""
    fill(engine, *(send() for _ in range(5)))
    assert numbers(page(engine, 2, 3)) == (2, 5, None)
    assert numbers(page(engine, 4, 100)) == (2, 5, None)
    assert refusal(engine, 6, 6) == {"last": 5}


def test_a_pruned_start_is_named(engine):
    """Retained from where: never a silent jump."""
    fill(engine, *(send() for _ in range(5)))
    prune(engine, "< 3")
    assert refusal(engine, 1, 5) == {"retained_from": 3, "last": 5}
    assert numbers(page(engine, 3, 5)) == (3, 5, None)


def test_a_hole_inside_is_no_fault_of_ours(engine):
    """Where only contracts were kept, a range that holds none of them is gone, and one around them shows the hole."""
    fill(engine, *(send() for _ in range(6)))
    prune(engine, "BETWEEN 2 AND 5")
    assert refusal(engine, 2, 4) == {"retained_from": 6, "last": 6}
    assert numbers(page(engine, 1, 6)) == (2, 6, None)


@pytest.mark.parametrize(
    ("gone", "first", "final", "holes"),
    [
        ("IN (2, 3, 5)", 1, 6, [(2, 3), (5, 5)]),
        ("BETWEEN 2 AND 4", 3, 6, [(3, 4)]),
        ("IN (5, 6)", 1, 9, [(5, 6)]),
        ("IN (3, 4, 5)", 1, 4, [(3, 4)]),
        ("= 0", 1, 6, []),
    ],
)
def test_what_a_range_lacks_is_named(engine, gone, first, final, holes):
    """Before, between and behind what is there: never a silent jump."""
    fill(engine, *(send() for _ in range(6)))
    prune(engine, gone)
    assert [hole[:2] for hole in page(engine, first, final).holes] == holes


def test_a_hole_between_two_pages_is_named_once(engine):
    """The next page begins behind it, so that following `next` never ends in a refusal."""
    fill(engine, *(send() for _ in range(250)))
    prune(engine, "BETWEEN 101 AND 150 OR sequence > 240")
    first = page(engine, 1, 300)
    assert (numbers(first), first.holes) == ((100, 250, 151), [(101, 150, None)])
    second = page(engine, 151, 300)
    assert (numbers(second), second.holes) == ((90, 250, None), [(241, 250, None)])


def test_a_channel_whose_messages_are_all_pruned_keeps_its_number(engine):
    """Sequences survive pruning."""
    fill(engine, *(send() for _ in range(3)))
    prune(engine, "> 0")
    assert refusal(engine, 1, 3) == {"retained_from": None, "last": 3}
    assert engine.snapshot().sequences["product"] == 3


def test_a_page_is_bounded_by_count_and_by_bytes(engine):
    """A hundred messages, or four megabytes, and at least one."""
    fill(engine, *(send() for _ in range(101)))
    assert numbers(page(engine, 1, 1_000)) == (100, 101, 101)
    large = b"{" + bytes(3_000_000) + b"}"
    engine.connection.execute("UPDATE messages SET envelope = ? WHERE sequence <= 3", (large,))
    assert numbers(page(engine, 1, 10)) == (1, 101, 2)
    assert numbers(page(engine, 1, 1)) == (1, 101, None)


def test_a_tree_is_the_same_from_each_of_its_tasks(engine):
    """Its root first, parents before children."""
    links = (("root", None), ("a", "root"), ("b", "root"), ("c", "a"))
    fill(engine, *(send(type="task.assign/1", task_id=task, parent_task_id=parent) for task, parent in links))
    for start in ("root", "a", "b", "c"):
        assert list(read_tree(engine.connection, engine.names, start, INTENTS)) == ["root", "a", "b", "c"]


@pytest.mark.parametrize(
    "links",
    [
        [("a", "a")],
        [("a", "b"), ("b", "a")],
        [("a", "b"), ("b", "c"), ("c", "a")],
        [("a", "b"), ("b", "c"), ("c", "b")],
    ],
)
def test_a_cyclic_lineage_ends(engine, links):
    """Stored parents may point anywhere; each task stands once."""
    fill(engine, *(send(task_id=task, parent_task_id=parent) for task, parent in links))
    tree = read_tree(engine.connection, engine.names, "a", INTENTS)
    assert sorted(tree) == sorted({task for task, _ in links})


def test_a_chain_without_end_is_cut(engine):
    """Neither way does a walk take more than a thousand tasks."""
    fill(engine, *(send(task_id=f"t{n}", parent_task_id=f"t{n - 1}") for n in range(1, 2_500)))
    assert len(read_tree(engine.connection, engine.names, "t2499", INTENTS)) == 1_000
    assert next(iter(read_tree(engine.connection, engine.names, "t2499", INTENTS))) == "t1500"


def test_a_parent_nobody_wrote_about_is_the_root(engine):
    """It has no steps, and its children are there."""
    fill(engine, send(task_id="a", parent_task_id="unknown"))
    tree = read_tree(engine.connection, engine.names, "a", INTENTS)
    assert {task: len(steps) for task, steps in tree.items()} == {"unknown": 0, "a": 1}


def test_a_step_tells_who_said_what_and_where(engine):
    """A type that is no longer known informs."""
    fill(engine, send("qa", type="task.assign/1", task_id="t"), send("pm", to="@qa", type="gone/1", task_id="t"))
    first, second = read_steps(engine.connection, engine.names, "t", INTENTS)
    assert (first.sender, first.type, first.intent, first.channel) == ("qa", "task.assign/1", "assign", "product")
    assert (second.sender, second.intent, second.channel, second.sequence) == ("pm", "inform", "@qa", 1)
    assert first.timestamp == "2027-01-15T08:00:00.000000Z"


def test_a_tree_of_many_steps_is_cut(engine, monkeypatch):
    """One answer holds a bounded number of steps in all, however many tasks they are spread over."""
    monkeypatch.setattr("adapter.store.reads._TREE_STEPS_MAX", 5)
    fill(engine, *(send(task_id=f"t{n % 3}", parent_task_id="root" if n < 3 else None) for n in range(12)))
    tree = read_tree(engine.connection, engine.names, "t0", INTENTS)
    assert {task: len(steps) for task, steps in tree.items()} == {"root": 0, "t0": 4, "t1": 1}
