"""Promise 3 stated once more, without a model: whatever happens, nothing is handed out too early or lost."""

import hypothesis.strategies as st
from hypothesis import given, settings

from adapter.core.delivery import State
from adapter.core.mailbox import Mailbox
from tests.support.factories import delivery
from tests.support.packing import packing

ACTS = st.tuples(
    st.sampled_from(["claim", "claim", "ack", "release", "fail", "kill", "refuse", "evict", "lapse", "extend", "add"]),
    st.integers(0, 50),
)


OBJECTS_MIN = st.sampled_from([1, 2, 100])


class Scene:
    """A mailbox, every delivery it ever had, and the time. One that was packed is another object once it comes up."""

    def __init__(self, lines):
        self.box = Mailbox("qa")
        self.all = []
        self.now = 0
        for line in lines:
            self.add(line)

    def add(self, line):
        """A new message."""
        self.all.append(delivery(len(self.all) + 1, order_key=line % 4))
        self.box.add(self.all[-1])

    def follow(self):
        """Have the objects that came up in the place of those that were packed."""
        for message_id, item in self.box.live.items():
            self.all[message_id - 1] = item

    def act(self, act, number):
        """One act; those that make no sense now do nothing."""
        self.now += number % 3
        self.follow()
        held = [d for d in self.all if d.state is State.LEASED]
        if act == "claim":
            self.claim(1 + number % 5)
        elif act == "add":
            self.add(number)
        elif act == "evict":
            oldest = self.box.oldest_evictable()
            normal = [d for d in self.all if d.state is State.QUEUED]
            assert (oldest and oldest.message_id) == (normal[0].message_id if normal else None)
            self.follow()
            if oldest is not None:
                self.box.evict(oldest)
        elif act == "lapse":
            self.now += 10
            for item in self.box.lapsed(self.now):
                self.box.fail(item, self.now + number, silent=True)
        elif held:
            self.settle(act, held[number % len(held)], number)

    def settle(self, act, item, number):
        """A hand-over ends."""
        if act in ("fail", "kill"):
            self.box.fail(item, None if act == "kill" else self.now + number, silent=False)
        elif act == "extend":
            self.box.extend(item, self.now + number)
        else:
            {"ack": self.box.ack, "release": self.box.release, "refuse": self.box.refuse}[act](item)

    def claim(self, count):
        """A batch, held against promise 3."""
        before = {d.message_id: d.state for d in self.all}
        handed, _ = self.box.claim(count, self.now, self.now + 10, lambda d: f"{d.message_id}.{d.handovers}")
        self.follow()
        ids = [d.message_id for d in handed]
        assert ids == sorted(ids)
        assert self.box.depth == sum(d.state in {State.QUEUED, State.LEASED} for d in self.all)
        assert len(ids) <= count
        for item in handed:
            ahead = [d for d in self.all if d.order_key == item.order_key and d.message_id < item.message_id]
            assert all(before[d.message_id] in {State.ACKED, State.DEAD} or d.message_id in ids for d in ahead)
            assert item.not_before_us <= self.now
            assert not item.solo or ids == [item.message_id]

    def drain(self):
        """Claim and ack until nothing is left: what is alive must come out, however it got where it is."""
        for _ in range(3 * len(self.all) + 3):
            self.now += 1_000
            for item in self.box.lapsed(self.now):
                self.box.release(item)
            self.claim(100)
            for item in [d for d in self.all if d.state is State.LEASED]:
                self.box.ack(item)


@settings(max_examples=300)
@given(lines=st.lists(st.integers(0, 3), min_size=1, max_size=12), acts=st.lists(ACTS, max_size=40), small=OBJECTS_MIN)
def test_order_holds_and_nothing_is_stuck(lines, acts, small):
    """Lines keep commit order in every batch; afterwards each message can still be handed out and settled."""
    with packing(small):
        scene = Scene(lines)
        for act, number in acts:
            scene.act(act, number)
        scene.drain()
    assert {d.state for d in scene.all} <= {State.ACKED, State.DEAD}
    assert not scene.box.depth


@settings(max_examples=100)
@given(
    lines=st.lists(st.integers(0, 3), min_size=1, max_size=12),
    acts=st.lists(ACTS, max_size=30),
    small=OBJECTS_MIN,
    copy_small=OBJECTS_MIN,
    count=st.sampled_from([1, 3, 100]),
)
def test_a_mailbox_read_back_from_its_rows_is_the_same(lines, acts, small, copy_small, count):
    """A restart in any state hands out what would have been handed out without it (promise 10), whatever is packed."""
    with packing(small):
        scene = Scene(lines)
        for act, number in acts:
            scene.act(act, number)
    with packing(copy_small):
        copy = read_back(scene)
    scene.now += 5
    batches = [box.claim(count, scene.now, scene.now + 10, lambda d: str(d.handovers))[0] for box in (scene.box, copy)]
    assert [d.message_id for d in batches[0]] == [d.message_id for d in batches[1]]


def read_back(scene):
    """A mailbox of what is alive."""
    copy = Mailbox("qa")
    scene.follow()
    for item in scene.all:
        fields = ("state", "handovers", "failures", "solo", "token", "lease_until_us", "not_before_us")
        if item.waiting:
            copy.wait(item.waiting)
        elif item.state in {State.QUEUED, State.LEASED}:
            known = {name: getattr(item, name) for name in fields}
            copy.add(delivery(item.message_id, order_key=item.order_key, **known))
    return copy
