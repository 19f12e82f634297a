"""Promise 3 stated once more, without a model: whatever happens, nothing is handed out too early or lost."""

import hypothesis.strategies as st
from hypothesis import given, settings

from adapter.core.delivery import State
from adapter.core.mailbox import Mailbox
from tests.support.factories import delivery

ACTS = st.tuples(
    st.sampled_from(["claim", "claim", "ack", "release", "fail", "kill", "refuse", "evict", "lapse", "extend", "add"]),
    st.integers(0, 50),
)


class Scene:
    """A mailbox, every delivery it ever had, and the time."""

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

    def act(self, act, number):
        """One act; those that make no sense now do nothing."""
        self.now += number % 3
        held = [d for d in self.all if d.state is State.LEASED]
        if act == "claim":
            self.claim(1 + number % 5)
        elif act == "add":
            self.add(number)
        elif act == "evict":
            oldest = self.box.oldest_evictable()
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
        ids = [d.message_id for d in handed]
        assert ids == sorted(ids)
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
@given(lines=st.lists(st.integers(0, 3), min_size=1, max_size=12), acts=st.lists(ACTS, max_size=40))
def test_order_holds_and_nothing_is_stuck(lines, acts):
    """Lines keep commit order in every batch; afterwards each message can still be handed out and settled."""
    scene = Scene(lines)
    for act, number in acts:
        scene.act(act, number)
    scene.drain()
    assert {d.state for d in scene.all} <= {State.ACKED, State.DEAD}
    assert not scene.box.live


@settings(max_examples=100)
@given(lines=st.lists(st.integers(0, 3), min_size=1, max_size=12), acts=st.lists(ACTS, max_size=30))
def test_a_mailbox_read_back_from_its_rows_is_the_same(lines, acts):
    """A restart in any state hands out what would have been handed out without it (promise 10)."""
    scene = Scene(lines)
    for act, number in acts:
        scene.act(act, number)
    copy = Mailbox("qa")
    for item in scene.box.live.values():
        fields = ("state", "handovers", "failures", "solo", "token", "lease_until_us", "not_before_us")
        copy.add(delivery(item.message_id, order_key=item.order_key, **{name: getattr(item, name) for name in fields}))
    scene.now += 5
    batches = [box.claim(100, scene.now, scene.now + 10, lambda d: str(d.handovers))[0] for box in (scene.box, copy)]
    assert [d.message_id for d in batches[0]] == [d.message_id for d in batches[1]]
