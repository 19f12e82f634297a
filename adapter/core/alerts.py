"""The adapter's own messages: what an alarm reads like to whom it is told (promise 6)."""

from hashlib import sha256
from typing import Any, Final

from adapter.core.alarms import RULES
from adapter.core.commands import Send
from adapter.core.routing import order_key
from adapter.core.tallies import Telling
from shared.envelope import content_sha256
from shared.names import ADAPTER
from shared.strict_json import decode_object
from shared.times import iso

_FAMILY: Final = "alert."


def is_alert(envelope: bytes) -> bool:
    """Whether a stored message is an alert: when one dies, no alert is raised."""
    return str(decode_object(envelope).get("type")).startswith(_FAMILY)


def alert(telling: Telling, channel: str, state: dict[str, Any], message_id: int) -> Send:
    """The message that tells it on a channel; `message_id`, which is never used twice, makes its key.

    `state` is how the agent stands now, for the payload. The message carries no signature: no sidecar sent it, and the
    link's answer, which is sealed, vouches for it.
    """
    kind, agent, reason = telling.alarm
    rule = RULES[kind]
    digest = sha256(f"{rule.contract} {message_id}".encode()).hexdigest()[:32]
    envelope: dict[str, Any] = {
        "idempotency_key": "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:])),
        "sender": ADAPTER,
        "to": channel,
        "type": rule.contract,
        "payload": {
            "summary": rule.summary.format(agent=agent, reason=reason, count=telling.count),
            "agent": agent,
            "reason": reason,
            "count": telling.count,
            "since": iso(telling.since_us),
            "repeated": telling.is_escalated,
            **state,
        },
    }
    return Send(
        envelope=envelope,
        sender=ADAPTER,
        idempotency_key=bytes.fromhex(digest),
        content_sha256=content_sha256(envelope),
        channel=channel,
        order_key=order_key(envelope),
        critical=True,
        rate_class="critical",
        keep_forever=False,
        expires_at_us=None,
    )
