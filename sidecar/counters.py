"""What this process counted since it started. Plain integers on the way, read when somebody asks."""

from dataclasses import dataclass, field


def _counted(text: str) -> int:
    counter: int = field(default=0, metadata={"help": text})
    return counter


@dataclass(slots=True)
class Counters:
    """Each field is a counter of `/metrics`; its help text stands beside it."""

    sends_accepted: int = _counted("Sends the adapter committed, duplicates included.")
    sends_queued: int = _counted("Sends committed to the outbox.")
    sends_refused: int = _counted("Sends refused, here or by the adapter.")
    sends_slowed: int = _counted("Times that sends waited because the agent was faster than it may be.")
    outbox_drained: int = _counted("Messages that left the outbox for the adapter.")
    outbox_buried: int = _counted("Messages of the outbox that the adapter refused for good.")
    outbox_resent: int = _counted("Refused messages that somebody sent again.")
    outbox_dropped: int = _counted("Waiting and refused messages that somebody threw away.")
    deliveries_handed: int = _counted("Messages handed to the agent.")
    deliveries_absorbed: int = _counted("Redelivered messages acknowledged from memory, without the agent.")
    deliveries_released: int = _counted("Messages given back because the agent had gone.")
    acks_deferred: int = _counted("Acknowledgements kept until the adapter is back.")
    gaps_found: int = _counted("Gaps told to the agent.")
    conditions_told: int = _counted("Entries about conditions in the journal: begun, lasting and ended.")
    link_requests: int = _counted("Requests sent to the adapter.")
    link_failures: int = _counted("Requests without a believable answer.")
    answers_unverified: int = _counted("Answers whose signature was wrong or missing.")
