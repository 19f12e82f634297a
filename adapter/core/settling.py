"""How hand-overs end: acked, given back, failed, refused, or lapsed. Part of the exchange, for its mailboxes."""

from collections.abc import Mapping
from typing import Final

from adapter.core.books import Books, Decide
from adapter.core.commands import Ack, Extend, Extended, GiveBack, Nack, Settled
from adapter.core.delivery import Delivery, State
from adapter.core.mailbox import Mailbox
from adapter.core.policy import Now
from adapter.core.ports import StoreTransaction
from shared.limits import REASON_CHARS_MAX
from shared.problems import Problem

_MESSAGE_ID_DIGITS_MAX: Final = 15  # hexadecimal, so 60 bits


class Settling:
    """Decides on hand-overs."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._changes = books.changes
        self._policy = books.policy

    def handlers(self) -> Mapping[type, Decide]:
        """See `Part`."""
        return {Ack: self.ack, Nack: self.nack, GiveBack: self.give_back, Extend: self.extend}

    def next_due_us(self) -> int | None:
        """See `Part`: a lease may lapse, or a waiting delivery become ready or expire."""
        dues = (mailbox.next_due_us() for mailbox in self._books.mailboxes.values())
        return min((due for due in dues if due is not None), default=None)

    def ack(self, ack: Ack, store: StoreTransaction, now: Now) -> list[str]:
        """The acked tokens; raises `stale-lease` when one had ended, the others being acked all the same."""
        mailbox = self._books.mailbox(ack.recipient)
        deliveries = [self._find(mailbox, token, store, "/delivery_ids") for token in ack.delivery_ids]
        stale, acked = [], []
        for delivery, token in zip(deliveries, ack.delivery_ids, strict=True):
            if delivery.holds(token):
                delivery.result = ack.results.get(token)
                mailbox.ack(delivery)
                self._changes.touch(store, now, delivery)
            elif delivery.state is not State.ACKED or delivery.token != token:
                stale.append(token)
                continue
            acked.append(token)
        if stale:
            detail = f"{len(stale)} of these hand-overs have ended; the messages were or will be handed over again."
            raise Problem("stale-lease", detail, field="/delivery_ids", stale=stale, acked=acked)
        return acked

    def nack(self, nack: Nack, store: StoreTransaction, now: Now) -> Settled:
        """Where the delivery went."""
        mailbox = self._books.mailbox(nack.recipient)
        delivery = self._held(mailbox, nack.delivery_id, store, "/delivery_id")
        delivery.detail = nack.reason[:REASON_CHARS_MAX] if nack.reason else None
        if nack.mode == "refuse":
            mailbox.refuse(delivery)
            self._changes.touch(store, now, delivery)
        elif nack.mode == "release":
            self._changes.touch(store, now, *mailbox.release(delivery))
        else:
            self._fail(mailbox, delivery, store, now, silent=False)
        return Settled(delivery.state.word)

    def extend(self, extend: Extend, store: StoreTransaction, now: Now) -> Extended:
        """The new end, for all of them or for none."""
        mailbox = self._books.mailbox(extend.recipient)
        held = [self._held(mailbox, token, store, "/delivery_ids") for token in extend.delivery_ids]
        lease_until_us = now.steady_us + extend.extension_us
        for delivery in held:
            mailbox.extend(delivery, lease_until_us)
            self._changes.touch(store, now, delivery)
        return Extended(lease_until_us)

    def give_back(self, give_back: GiveBack, store: StoreTransaction, now: Now) -> None:
        """Release those that are still out; the others were settled meanwhile, or ended with their agent."""
        mailbox = self._books.mailboxes.get(give_back.recipient)
        if mailbox is None:
            return
        for token in give_back.delivery_ids:
            delivery = mailbox.live.get(_message_id(token))
            if delivery is not None and delivery.holds(token):
                self._changes.touch(store, now, *mailbox.release(delivery))

    def tick(self, store: StoreTransaction, now: Now) -> None:
        """Fail what lapsed, make ready what has waited long enough, and end what waited for too long."""
        for mailbox in self._books.mailboxes.values():
            mailbox.wake(now.steady_us)  # else what nobody polls for would stay due, and tick without end
            for delivery in mailbox.lapsed(now.steady_us):
                self._fail(mailbox, delivery, store, now, silent=True)
            self._changes.touch(store, now, *mailbox.expire(now.steady_us))

    def _fail(self, mailbox: Mailbox, delivery: Delivery, store: StoreTransaction, now: Now, *, silent: bool) -> None:
        retry = self._policy.retry
        failures = delivery.failures + 1
        wait_us = None if retry.is_spent(failures) else retry.delay_us(failures, self._policy.jitter())
        retry_at_us = None if wait_us is None else now.steady_us + wait_us
        self._changes.touch(store, now, *mailbox.fail(delivery, retry_at_us, silent=silent))

    def _held(self, mailbox: Mailbox, token: str, store: StoreTransaction, field: str) -> Delivery:
        delivery = self._find(mailbox, token, store, field)
        if not delivery.holds(token):
            detail = f"The hand-over {token} has ended; nothing was changed."
            raise Problem("stale-lease", detail, field=field, stale=[token])
        return delivery

    def _find(self, mailbox: Mailbox, token: str, store: StoreTransaction, field: str) -> Delivery:
        message_id = _message_id(token)
        live = mailbox.live.get(message_id)
        delivery = live or self._changes.delivery((message_id, mailbox.recipient), store)
        if delivery is None:
            detail = f"No hand-over {token!r} was made to {mailbox.recipient!r}."
            raise Problem("unknown-delivery", detail, field=field)
        return delivery


def _message_id(token: str) -> int:
    """The message that a token names, or -1. Whatever is sent stays within the 63 bits that a row can hold."""
    head = token.partition(".")[0]
    try:
        return int(head, 16) if len(head) <= _MESSAGE_ID_DIGITS_MAX else -1
    except ValueError:
        return -1
