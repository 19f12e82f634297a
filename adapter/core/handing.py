"""Handing over: polls, parked or served at once, and hand-overs whose answers never arrived. Part of the exchange."""

from collections import defaultdict, deque
from collections.abc import Mapping

from adapter.core.books import Books, Decide
from adapter.core.commands import Claim, HandedOver, Unpark
from adapter.core.delivery import Delivery, State
from adapter.core.mailbox import Mailbox
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction


class Handing:
    """Serves polls. Those that found nothing and wait are served by the group that brings them something."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._parked: defaultdict[str, deque[Claim]] = defaultdict(deque)

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return {Claim: self.claim, Unpark: self.unpark}

    def next_due_us(self) -> None:
        """See `Part`: polls end when their callers say so."""

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """See `Part`."""

    def claim(self, claim: Claim, store: StoreTransaction, now: Now) -> list[HandedOver] | None:
        """Messages, or None when there are none and the claim is parked."""
        mailbox = self._books.mailbox(claim.recipient)
        self._books.saw(claim.recipient, now)
        if claim.lost:
            self._recover(mailbox, claim, store, now)
        handed = self._hand_over(mailbox, claim, store, now)
        if handed or not claim.park:
            return handed
        self._parked[claim.recipient].append(claim)
        return None

    def unpark(self, unpark: Unpark, _: StoreTransaction, now: Now) -> None:
        """A poll waits no longer."""
        self._books.saw(unpark.recipient, now)
        waiting = self._parked[unpark.recipient]
        self._parked[unpark.recipient] = deque(claim for claim in waiting if claim.ticket != unpark.ticket)

    def polls(self, agent: str) -> bool:
        """Whether a poll of this agent waits here."""
        return bool(self._parked.get(agent))

    def serve_parked(self, store: StoreTransaction, now: Now) -> list[tuple[int, str, list[HandedOver]]]:
        """Serve what can be served now: (ticket, recipient, messages) of each poll. A removed agent's end empty."""
        served: list[tuple[int, str, list[HandedOver]]] = []
        for recipient, waiting in self._parked.items():
            while waiting:
                mailbox = self._books.mailboxes.get(recipient)
                handed = [] if mailbox is None else self._hand_over(mailbox, waiting[0], store, now)
                if not handed and mailbox is not None:
                    break
                self._books.saw(recipient, now)
                served.append((waiting.popleft().ticket, recipient, handed))
        return served

    def _hand_over(self, mailbox: Mailbox, claim: Claim, store: StoreTransaction, now: Now) -> list[HandedOver]:
        policy = self._books.policy
        lease_until_us = now.steady_us + policy.lease_us
        poll_id = claim.poll_id or policy.nonce()

        def mint(delivery: Delivery) -> str:
            return f"{delivery.message_id:x}.{delivery.handovers:x}.{poll_id}"

        leased, expired = mailbox.claim(claim.count, now.steady_us, lease_until_us, mint)
        self._books.changes.touch(store, now, *leased, *expired)
        envelopes = store.envelopes([delivery.message_id for delivery in leased])
        return [HandedOver(d.token or "", d.handovers, d.lease_until_us, envelopes[d.message_id]) for d in leased]

    def _recover(self, mailbox: Mailbox, claim: Claim, store: StoreTransaction, now: Now) -> None:
        """Give back what was handed to polls whose answers never arrived."""
        endings = tuple(f".{poll_id}" for poll_id in claim.lost)
        for delivery in list(mailbox.live.values()):
            if delivery.state is State.LEASED and (delivery.token or "").endswith(endings):
                self._books.changes.touch(store, now, *mailbox.release(delivery))
