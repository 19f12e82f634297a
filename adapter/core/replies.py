"""What a reply takes over from the message it answers."""

from collections.abc import Callable
from typing import Any, Final

from adapter.core.commands import Send
from shared.names import direct_channel
from shared.problems import Problem
from shared.strict_json import decode_object

_INHERITED: Final = ("thread_id", "correlation_id")


def inherit(
    send: Send, last_sequence: Callable[[str], int], envelope_at: Callable[[str, int], bytes | None]
) -> dict[str, Any]:
    """The envelope with the thread and correlation of the message it replies to, where it leaves them out.

    A reply in a channel answers a message of that channel; a reply to an agent answers one that came to the
    replier's own direct channel. What was filled in is listed in `inherited`, since the sender did not sign it.
    """
    envelope = send.envelope
    sequence = envelope.get("reply_to_sequence_id")
    if sequence is None:
        return envelope
    channel = direct_channel(send.sender) if send.channel.startswith("@") else send.channel
    last = last_sequence(channel)
    if sequence > last:
        detail = f"{channel} has no message {sequence}; its newest is {last}."
        raise Problem("invalid-field", detail, field="/reply_to_sequence_id")
    stored = envelope_at(channel, sequence)
    original = {} if stored is None else decode_object(stored)
    missing = (name for name in _INHERITED if name not in envelope)
    taken: dict[str, Any] = {name: original[name] for name in missing if original.get(name) is not None}
    return {**envelope, **taken, "inherited": list(taken)} if taken else envelope
