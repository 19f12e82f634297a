"""Edit and resend: a new message takes the place of a dead letter, which its commit closes. Part of the exchange.

The new message is the orchestrator's own, with a place, a key and a type that it may send; the two name each other.
"""

from collections.abc import Collection
from typing import Final

from adapter.core.books import Books
from adapter.core.commands import Send
from adapter.core.dead_letters import DeadLetter
from adapter.core.ports import StoreTransaction
from adapter.core.reviving import open_letter
from shared.problems import Problem

_ROLE: Final = "orchestrator"


def replaced_letter(
    send: Send, recipients: Collection[str], books: Books, store: StoreTransaction
) -> DeadLetter | None:
    """The open dead letter that this send replaces; None for one that replaces nothing.

    Raises `not-permitted`, `invalid-field` where its recipient would get nothing, `not-found` or `not-dead`.
    """
    replaces = send.envelope.get("replaces")
    if replaces is None:
        return None
    role = books.topology.roles.get(send.sender)
    if role != _ROLE:
        detail = f"Dead letters are the orchestrator's to replace; your role is {role!r}."
        raise Problem("not-permitted", detail, field="/replaces")
    recipient, channel, sequence = replaces["recipient"], replaces["channel"], replaces["channel_sequence_id"]
    if recipient not in recipients:
        detail = f"{send.channel!r} does not reach {recipient!r}, whose dead letter it replaces; send to @{recipient}."
        raise Problem("invalid-field", detail, field="/replaces/recipient")
    message_id = store.find_message(channel, sequence)
    if message_id is None:
        raise Problem("not-found", f"There is no message {sequence} of {channel!r}.", field="/replaces")
    return open_letter((message_id, recipient), books.changes, store, "/replaces")[1]
