"""Group commit: who shares a transaction with whom, and whose failure is whose."""

import asyncio
import time
from typing import Any

import pytest

from shared.group_commit import GROUP_MAX, GroupCommit


class Store:
    """An `apply` that records its groups and waits, while `gate` is closed, as a slow disk would."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()
        self.running = 0

    async def apply(self, commands: list[int]) -> list[Any]:
        """Ten times each command; a negative one is refused alone, a zero fails the whole group."""
        assert self.running == 0, "two groups are in flight"
        self.running += 1
        self.groups.append(commands)
        self.entered.set()
        await self.gate.wait()
        self.running -= 1
        if 0 in commands:
            raise OSError("disk full")
        return [ValueError(str(n)) if n < 0 else n * 10 for n in commands]


@pytest.fixture
async def store() -> Store:
    """A store whose gate is open."""
    made = Store()
    made.gate.set()
    return made


@pytest.fixture
async def slow_store(store: Store) -> Store:
    """A store whose commit takes some milliseconds."""
    quick = store.apply

    async def apply(commands: list[int]) -> list[Any]:
        store.entered.set()
        loop = asyncio.get_running_loop()
        synced = loop.create_future()
        loop.call_later(0.003, synced.set_result, None)
        await synced
        return await quick(commands)

    store.apply = apply
    return store


async def test_commands_of_one_loop_turn_share_a_commit(store: Store) -> None:
    """What the tasks of one turn of the loop submit is one group; each gets its own outcome."""
    commits = GroupCommit(store.apply)

    async def sender(number: int) -> int:
        return await commits.submit(number)

    assert await asyncio.gather(*(sender(n) for n in range(1, 9))) == [n * 10 for n in range(1, 9)]
    assert store.groups == [[1, 2, 3, 4, 5, 6, 7, 8]]


async def test_what_comes_during_a_commit_is_the_next_group(store: Store) -> None:
    """One group is in flight at a time; what arrives meanwhile gathers, in order, and commits together."""
    store.gate.clear()
    commits = GroupCommit(store.apply)
    first = commits.submit(1)
    await store.entered.wait()
    later = []
    for number in (2, 3, 4):
        later.append(commits.submit(number))
        await asyncio.sleep(0)
    assert store.groups == [[1]]
    assert not first.done()
    store.gate.set()
    assert await asyncio.gather(first, *later) == [10, 20, 30, 40]
    assert store.groups == [[1], [2, 3, 4]]


async def _again_and_again(commits: GroupCommit[int, int], number: int, times: int) -> None:
    """A sender that needs a few turns of the loop between an answer and its next command."""
    for _ in range(times):
        await commits.submit(number)
        for _ in range(3):
            await asyncio.sleep(0)


async def test_those_who_send_again_and_again_come_together(slow_store: Store) -> None:
    """Two that began out of step share their commits soon: the next group waits for the one who was just answered."""
    commits = GroupCommit(slow_store.apply)
    first = asyncio.ensure_future(_again_and_again(commits, 1, 20))
    await slow_store.entered.wait()
    await asyncio.gather(first, _again_and_again(commits, 2, 20))
    assert slow_store.groups[0] == [1]
    assert [len(group) for group in slow_store.groups].count(2) >= 18


async def test_a_lone_sender_is_not_held_up(slow_store: Store) -> None:
    """Nobody else was under way: its next command is in a commit within two turns of the loop."""
    commits = GroupCommit(slow_store.apply)
    for _ in range(3):
        await commits.submit(1)
        slow_store.entered.clear()
        again = commits.submit(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert slow_store.entered.is_set()
        await again


async def test_those_who_do_not_come_back_are_soon_expected_no_more(
    slow_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a sender that goes on, others send once each: waits in vain become rarer, up to one in 65 commits."""
    commits, waits = GroupCommit(slow_store.apply), 0
    gather = commits._gather

    async def counting(expected: int, seconds: float) -> None:
        nonlocal waits
        began = time.monotonic()
        await gather(expected, seconds)
        waits += time.monotonic() - began > 0.001

    monkeypatch.setattr(commits, "_gather", counting)
    for _ in range(63):
        slow_store.entered.clear()
        mine = commits.submit(1)
        await slow_store.entered.wait()
        other = commits.submit(2)
        await asyncio.gather(mine, other)
    assert 0 < waits <= 7


async def test_a_refused_command_fails_alone(store: Store) -> None:
    """An exception as an outcome belongs to its command; its neighbours are committed."""
    commits = GroupCommit(store.apply)
    outcomes = await asyncio.gather(*(commits.submit(n) for n in (1, -2, 3)), return_exceptions=True)
    assert outcomes[0] == 10
    assert isinstance(outcomes[1], ValueError)
    assert outcomes[2] == 30


async def test_a_failed_commit_fails_exactly_its_group(store: Store) -> None:
    """When the transaction fails, all of its commands fail with that fault, and the next group commits."""
    store.gate.clear()
    commits = GroupCommit(store.apply)
    doomed = [commits.submit(n) for n in (1, 0, 2)]
    await store.entered.wait()
    fine = [commits.submit(n) for n in (3, 4)]
    store.gate.set()
    outcomes = await asyncio.gather(*doomed, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["disk full"] * 3
    assert await asyncio.gather(*fine) == [30, 40]
    assert await commits.submit(5) == 50


async def test_a_cancelled_waiter_disturbs_nobody(store: Store) -> None:
    """Cancelling before or during the commit leaves the neighbours' outcomes, and the command is still applied."""
    store.gate.clear()
    commits = GroupCommit(store.apply)
    futures = [commits.submit(n) for n in (1, 2, 3)]
    futures[0].cancel()
    await store.entered.wait()
    futures[1].cancel()
    store.gate.set()
    assert await futures[2] == 30
    assert store.groups == [[1, 2, 3]]
    assert await commits.submit(4) == 40


async def test_a_group_is_bounded(store: Store) -> None:
    """A flood commits in groups of at most GROUP_MAX, in order and without loss."""
    commits = GroupCommit(store.apply)
    count = 2 * GROUP_MAX + 1
    outcomes = await asyncio.gather(*(commits.submit(n) for n in range(1, count + 1)))
    assert outcomes == [n * 10 for n in range(1, count + 1)]
    assert [len(group) for group in store.groups] == [GROUP_MAX, GROUP_MAX, 1]


async def test_drained_waits_for_everything(store: Store) -> None:
    """`drained` returns at once when idle, and otherwise once every queued command has its outcome."""
    store.gate.clear()
    commits = GroupCommit(store.apply)
    await commits.drained()
    first = commits.submit(1)
    await store.entered.wait()
    second = commits.submit(2)
    waiting = asyncio.ensure_future(commits.drained())
    await asyncio.sleep(0)
    assert not waiting.done()
    store.gate.set()
    await waiting
    assert (first.result(), second.result()) == (10, 20)
