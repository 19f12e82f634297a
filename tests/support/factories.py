"""Things with defaults: a test names only what matters to it."""

import itertools
import random
import string
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from adapter.core.admission import QueueLimits
from adapter.core.commands import Claim, Send, Snapshot
from adapter.core.delivery import Delivery
from adapter.core.exchange import Exchange
from adapter.core.policy import EscalationLimits, Now, Policy
from adapter.core.rates import Rate
from adapter.core.retention import Ages, RetentionPolicy
from adapter.core.retry import RetryPolicy
from adapter.core.routing import Topology, order_key
from shared.config import Membership
from shared.envelope import content_sha256
from shared.identifiers import uuid7
from shared.keys import Key, Keyring
from shared.names import GOVERNOR
from shared.signing import sign_envelope
from shared.times import iso
from tests.support.clock import START_SECONDS, us

AGENTS = ("orchestrator", "pm", "engineering", "qa", "research", "growth")
ROLES = {"orchestrator": "orchestrator", "pm": "pm"} | dict.fromkeys(AGENTS[2:], "execution")
CHANNELS = {"all-agents": AGENTS, "product": AGENTS, "platform": ("orchestrator", "pm", "engineering")}
START_US = us(START_SECONDS)
UNLIMITED = dict.fromkeys(("normal", "critical", "progress"), Rate(10**9, 10**9))

NOTHING_IS_TOO_OLD = RetentionPolicy(Ages(None, None), {}, check_us=0, agree_us=0)

_tickets = itertools.count(1)


def new_key() -> str:
    """A fresh idempotency key."""
    return str(uuid7())


def keyring(agent: str = "pm", secret: bytes = b"k" * 32) -> Keyring:
    """A keyring of one key."""
    return Keyring(agent, (Key(f"{agent}-1", secret),))


def noise(number: int, size: int) -> str:
    """The text of that number: nothing makes it shorter, and what stands in a file is found by it."""
    chance = random.Random(number)
    return "".join(chance.choices(string.ascii_letters + string.digits, k=size))


def envelope(sender: str = "pm", to: str = "product", **fields: Any) -> dict[str, Any]:
    """An unsigned envelope: a note with a fresh key."""
    defaults = {"type": "note/1", "payload": {"text": "hello"}, "idempotency_key": new_key()}
    return {"to": to, **defaults, "sender": sender, **fields}


def signed(unsigned: dict[str, Any], keys: Keyring, now_us: int) -> dict[str, Any]:
    """The envelope as its sidecar submits it."""
    return sign_envelope(unsigned, keys.current, now_us)


def topology(agents: tuple[str, ...] = AGENTS, **channels: tuple[str, ...]) -> Topology:
    """The default one, with the adapter in `platform` and the Governor; `channels` replaces those it names."""
    members = dict(CHANNELS) | {"platform": (*CHANNELS["platform"], "adapter")} | channels
    present = {name: tuple(one for one in who if one in (*agents, "adapter")) for name, who in members.items()}
    roles = {agent: ROLES[agent] for agent in agents} | {GOVERNOR: "governor"}
    return Topology(present | {f"@{name}": (name,) for name in roles}, roles)


def membership(agents: tuple[str, ...] = AGENTS, **channels: tuple[str, ...]) -> Membership:
    """What the file says of the default topology; `channels` replaces those it names."""
    members = dict(CHANNELS) | channels
    return Membership.model_validate(
        {
            "agents": {name: {"role": ROLES.get(name, "execution")} for name in agents},
            "channels": {name: {"members": [one for one in who if one in agents]} for name, who in members.items()},
        }
    )


def send(sender: str = "pm", to: str = "product", **fields: Any) -> Send:
    """A send command. `critical`, `rate_class`, `keep_forever`, `expires_at_us` and `deliver_at_us` are the command's;
    the rest is the envelope's."""
    own: dict[str, Any] = {"critical": False, "keep_forever": False, "expires_at_us": None, "deliver_at_us": None}
    own["rate_class"] = "critical" if fields.get("critical") else "normal"
    own |= {name: fields.pop(name) for name in tuple(own) if name in fields}
    content = envelope(sender, to, **fields)
    return Send(
        envelope=content,
        sender=sender,
        idempotency_key=UUID(content["idempotency_key"]).bytes,
        content_sha256=content_sha256(content),
        channel=to,
        order_key=order_key(content),
        **own,
    )


def scheduled(sender: str = "pm", to: str = "product", *, at: float, **fields: Any) -> Send:
    """A send command for a time, in seconds after the start; `expires` likewise."""
    times = {"deliver_at": at} | ({"expires_at": fields.pop("expires")} if "expires" in fields else {})
    told = {name: iso(START_US + us(seconds)) for name, seconds in times.items()}
    own = {f"{name}_us": START_US + us(seconds) for name, seconds in times.items()}
    return send(sender, to, **fields, **told, **own)


def claim(recipient: str, count: int = 10, *, park: bool = False, ticket: int | None = None) -> Claim:
    """A poll."""
    return Claim(recipient, count, next(_tickets) if ticket is None else ticket, park)


def delivery(message_id: int = 1, recipient: str = "qa", order_key: int = 1, **fields: Any) -> Delivery:
    """A queued delivery."""
    return Delivery(message_id, recipient, order_key, **fields)


def policy(
    *,
    lease_seconds: float = 30.0,
    attempts_max: int = 3,
    retry_base_seconds: float = 1.0,
    retry_cap_seconds: float = 60.0,
    queue_max: int = 500,
    critical_reserve: int = 100,
    rates: Mapping[str, Rate] = UNLIMITED,
    alert_window_seconds: float = 0.0,
    retention: RetentionPolicy = NOTHING_IS_TOO_OLD,
    repeats: int = 10,
    escalation_window_seconds: float = 3_600.0,
    dead_letters_max: int = 10_000,
    absence_seconds: float = 86_400.0,
    absence_governor_seconds: float = 86_400.0,
    jitter: Callable[[], float] = lambda: 1.0,
) -> Policy:
    """The default limits, with no bound on rates, no alerts, no retention, the longest jitter, nonces that count."""
    nonces = itertools.count(1)
    retry = RetryPolicy(attempts_max, us(retry_base_seconds), us(retry_cap_seconds))
    queue = QueueLimits(queue_max, critical_reserve)
    absence = us(absence_seconds), us(absence_governor_seconds)
    escalation = EscalationLimits(repeats, us(escalation_window_seconds), dead_letters_max, *absence)
    window_us = us(alert_window_seconds)

    def nonce() -> str:
        return f"{next(nonces):08x}"

    return Policy(us(lease_seconds), retry, queue, rates, window_us, retention, escalation, jitter, nonce)


def now(seconds: float = 0.0) -> Now:
    """Both clocks, so many seconds after the start."""
    at = START_US + us(seconds)
    return Now(at, at)


def exchange(
    rules: Policy | None = None, snapshot: Snapshot | None = None, members: Topology | None = None
) -> Exchange:
    """An exchange of the default agents over an empty store."""
    return Exchange(members or topology(), snapshot or Snapshot(0, 0, {}, []), rules or policy(), now())
