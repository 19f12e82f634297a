"""The demo's census finds every kind of violation, and none where there is none."""

from dataclasses import replace
from typing import Any

import pytest

from multiclaw.client import Receipt, Recipient
from multiclaw.demo.census import Census, take
from multiclaw.demo.ledger import Applied, Sent, digest

AGENTS = ("pm", "qa")


class Story:
    """Three sends of pm to a channel of two, all processed by both; a test breaks one thing."""

    def __init__(self) -> None:
        self.sent = [self._sent(number) for number in (1, 2, 3)]
        self.receipts = [self._receipt(number) for number in (1, 2, 3)]
        self.applied = {agent: [self._applied(number) for number in (1, 2, 3)] for agent in AGENTS}

    def take(self) -> Census:
        """The census of it."""
        return take(self.sent, self.receipts, self.applied)

    def told(self, index: int, agent: str, status: Any) -> None:
        """The adapter says something else of one recipient."""
        recipients = tuple(
            replace(recipient, status=status) if recipient.agent == agent else recipient
            for recipient in self.receipts[index].recipients
        )
        self.receipts[index] = replace(self.receipts[index], recipients=recipients)

    def _sent(self, number: int) -> Sent:
        message = {"to": "product", "payload": {"n": number}, "idempotency_key": f"key-{number}"}
        return Sent("pm", message, AGENTS, "queued" if number == 2 else "accepted")

    def _receipt(self, number: int) -> Receipt:
        recipients = tuple(Recipient(agent, "acked") for agent in AGENTS)
        return Receipt("duplicate", f"key-{number}", "product", number, f"2026-01-01T00:00:0{number}Z", recipients)

    def _applied(self, number: int) -> Applied:
        stamp = f"2026-01-01T00:00:0{number}Z"
        return Applied(f"key-{number}", "product", number, ("channel", "product"), stamp, digest({"n": number}))


@pytest.fixture
def story() -> Story:
    """A fresh one."""
    return Story()


def test_a_story_without_fault_is_clean(story: Story) -> None:
    """Counts of sends, of those that were first queued, and of deliveries; no violation."""
    assert story.take() == Census(sends=3, queued_first=1, deliveries=6, violations=())
    assert story.take().clean


def test_nothing_sent_is_clean() -> None:
    """An empty story has nothing to lose."""
    assert take([], [], {}).clean


def test_what_never_arrived_is_lost(story: Story) -> None:
    """It is told with what the adapter believes of it."""
    del story.applied["qa"][2]
    (violation,) = story.take().violations
    assert violation == "lost: product 3 for qa was never processed (the adapter says 'acked')"


@pytest.mark.parametrize("status", ["queued", "leased", "dead", None])
def test_what_arrived_and_is_not_acked_is_unaccounted(story: Story, status: str | None) -> None:
    """Processed, and the adapter does not know it."""
    if status is None:
        story.receipts[0] = replace(story.receipts[0], recipients=story.receipts[0].recipients[:1])
    else:
        story.told(0, "qa", status)
    (violation,) = story.take().violations
    assert violation == f"unaccounted: product 1 for qa was processed, and the adapter says {status!r}"


def test_what_arrived_under_another_number_is_renumbered(story: Story) -> None:
    """A message's place never changes."""
    story.applied["qa"][2] = replace(story.applied["qa"][2], sequence=4)
    assert story.take().violations == ("renumbered: product 3 for qa arrived as product 4",)


@pytest.mark.parametrize("payload", [{"n": 20}, {"n": 2, "m": None}, {}, {"n": "2"}])
def test_other_content_is_changed(story: Story, payload: dict[str, Any]) -> None:
    """One value, one member more, one less, or another type."""
    story.applied["pm"][1] = replace(story.applied["pm"][1], digest=digest(payload))
    assert story.take().violations == ("changed: product 2 for pm has other content than was sent",)


def test_what_was_processed_again_is_applied_twice(story: Story) -> None:
    """Once for each agent that did."""
    story.applied["qa"].insert(1, story.applied["qa"][0])
    assert story.take().violations == ("applied twice: qa processed key-1 2 times",)


def test_a_hole_in_a_channel_is_told(story: Story) -> None:
    """Numbers are 1 to the count of sends, each once."""
    story.receipts[2] = replace(story.receipts[2], sequence=4)
    for agent in AGENTS:
        story.applied[agent][2] = replace(story.applied[agent][2], sequence=4)
    assert story.take().violations == ("sequence: the numbers of product are not 1 to 3, each once",)


def test_a_number_that_is_used_twice_is_told(story: Story) -> None:
    """Two sends never share a place."""
    story.receipts[2] = replace(story.receipts[2], sequence=2)
    for agent in AGENTS:
        story.applied[agent][2] = replace(story.applied[agent][2], sequence=2)
    assert story.take().violations == ("sequence: the numbers of product are not 1 to 3, each once",)


def test_sends_out_of_their_senders_order_are_told(story: Story) -> None:
    """The second of two sends has the lower number: an outbox was overtaken."""
    story.sent[0], story.sent[1] = story.sent[1], story.sent[0]
    story.receipts[0], story.receipts[1] = story.receipts[1], story.receipts[0]
    assert story.take().violations == ("order: pm's product 1 came before an earlier send of it",)


def test_messages_processed_out_of_order_are_told(story: Story) -> None:
    """Within one order key the later one was processed first."""
    story.applied["qa"].reverse()
    violations = story.take().violations
    assert violations == tuple(
        f"order: qa processed product {number} after a later one of its key" for number in (2, 1)
    )


def test_order_within_a_task_is_that_of_time_across_channels(story: Story) -> None:
    """One task in two channels: sequences do not compare, commit times do."""
    task = ("task", "t")
    first, second, _ = (replace(entry, order_key=task) for entry in story.applied["qa"])
    story.applied["qa"][:2] = [replace(second, channel="@qa", sequence=1), first]
    assert "order: qa processed product 1 after a later one of its key" in story.take().violations


def test_order_between_keys_is_free(story: Story) -> None:
    """Other keys flow on past a message that waits."""
    entries = story.applied["qa"]
    story.applied["qa"] = [replace(entries[2], order_key=("task", "other")), *entries[:2]]
    assert story.take().clean
