"""The order rule of the agent's side."""

import random
from collections import defaultdict
from dataclasses import dataclass

import pytest

from multiclaw.client.lanes import Lanes


@dataclass(frozen=True)
class Item:
    """A message, as far as lanes care."""

    order_key: str
    number: int


def items(text: str) -> list[Item]:
    return [Item(key, number) for number, key in enumerate(text)]


def test_one_worker_keeps_the_order_of_arrival():
    """With a concurrency of 1, messages of all keys run in the order in which they came."""
    lanes: Lanes[Item] = Lanes(1)
    lanes.add(items("aabacb"))
    order = []
    while (item := lanes.start()) is not None:
        assert lanes.start() is None
        order.append(item.number)
        lanes.finish(item.order_key)
    assert order == [0, 1, 2, 3, 4, 5]


def test_a_key_runs_one_at_a_time_and_others_beside_it():
    """Idle workers take other keys, never the next of a key that runs."""
    lanes: Lanes[Item] = Lanes(3)
    lanes.add(items("aab"))
    assert [lanes.start(), lanes.start(), lanes.start()] == [Item("a", 0), Item("b", 2), None]
    assert lanes.has_room
    lanes.finish("a")
    assert not lanes.has_room
    assert lanes.start() == Item("a", 1)


def test_what_waits_behind_a_failure_is_taken_out():
    """Abandoning gives the later ones of that key, in order, and leaves the others."""
    lanes: Lanes[Item] = Lanes(1)
    lanes.add(items("aaba"))
    assert lanes.start() == Item("a", 0)
    assert [item.number for item in lanes.abandon("a")] == [1, 3]
    lanes.finish("a")
    assert lanes.start() == Item("b", 2)


def test_later_batches_queue_behind_the_running_one():
    """A message that arrives while its key runs waits for it."""
    lanes: Lanes[Item] = Lanes(2)
    lanes.add(items("a"))
    lanes.start()
    lanes.add([Item("a", 1)])
    assert lanes.start() is None
    lanes.finish("a")
    assert lanes.start() == Item("a", 1)


def test_draining_leaves_only_what_runs():
    """Everything that waits comes out in order of arrival; the running key can still finish."""
    lanes: Lanes[Item] = Lanes(1)
    lanes.add(items("abca"))
    lanes.start()
    assert [item.number for item in lanes.drain()] == [1, 2, 3]
    lanes.finish("a")
    assert lanes.start() is None
    assert lanes.has_room


@pytest.mark.parametrize("seed", range(30))
def test_random_runs_never_break_the_rule(seed):
    """Whatever ends or fails when: per key in order, never two at once, never more than the workers, none lost."""
    chance = random.Random(seed)
    workers = chance.randint(1, 4)
    lanes: Lanes[Item] = Lanes(workers)
    running: list[Item] = []
    started: dict[str, list[int]] = defaultdict(list)
    came = given_back = 0
    for _ in range(400):
        if chance.random() < 0.3:
            batch = [Item(chance.choice("abcd"), came + i) for i in range(chance.randint(1, 4))]
            came += len(batch)
            lanes.add(batch)
        while (item := lanes.start()) is not None:
            assert item.order_key not in {other.order_key for other in running}
            running.append(item)
            started[item.order_key].append(item.number)
        assert len(running) <= workers
        if running and chance.random() < 0.6:
            ended = running.pop(chance.randrange(len(running)))
            if chance.random() < 0.2:
                given_back += len(lanes.abandon(ended.order_key))
            lanes.finish(ended.order_key)
    left = len(lanes.drain())
    assert all(numbers == sorted(numbers) for numbers in started.values())
    assert sum(map(len, started.values())) + given_back + left == came
