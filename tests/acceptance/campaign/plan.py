"""What a round does, decided from its seed and nothing else."""

import random
from dataclasses import dataclass
from typing import Any
from uuid import UUID

AGENTS = {"orchestrator": "orchestrator", "pm": "pm", "engineering": "execution", "qa": "execution"}
CHANNELS = {
    "all-agents": tuple(AGENTS),
    "product": ("pm", "engineering", "qa"),
    "platform": ("orchestrator", "pm"),
}
_LIMITS = {
    "lease_seconds": 1.0,
    "attempts_max": 4,
    "retry_base_seconds": 0.05,
    "retry_cap_seconds": 0.2,
    "link_timeout_seconds": 0.6,
    "breaker_reset_seconds": 0.05,
    "breaker_reset_cap_seconds": 0.2,
}
"""Everything happens within a round: leases lapse, retries come due, breakers close."""

_TEMPERS: tuple[dict[str, Any], ...] = (
    {"health_poll_seconds": 0.05, "breaker_failures": 3},
    {"health_poll_seconds": 0.4, "breaker_failures": 1_000},
)
"""Sidecars that notice at once that the adapter is back, and such as go on trying it while their outbox waits."""

_SENDS_MIN, _SENDS_MAX = 6, 14
_THINK_SECONDS_MAX = 0.08
_FAULTS_MIN, _FAULTS_MAX = 3, 5
_KINDS = {"kill": 4, "kill at answer": 4, "kill again": 2, "stall": 1}
_DOWN_SECONDS_MAX = 0.4
_STALL_SECONDS_MAX = 1.2
"""Twice the link's timeout: sends of unknown outcome."""

_TEXTS = ("hello", "日本語 — ünïcode 🦀", "line\nline\ttab", "\u2028 \ufeff \U0001f469\u200d\U0001f680", "", '"\\/')


@dataclass(frozen=True, slots=True)
class Step:
    """One act of a sender: think, then send `messages` (more than one as a batch), sent `times` times over."""

    think_seconds: float
    messages: tuple[dict[str, Any], ...]
    times: int


@dataclass(frozen=True, slots=True)
class Fault:
    """When so many sends were begun, and a moment later, something happens to `target` for `down_seconds`.

    `kill at answer` waits for the next 2xx to a send that `target` has a part in, and comes before anything else can
    happen: what was acknowledged must be durable by then. `kill again` comes a second time, as soon as the process is
    ready once more: in the middle of recovery. `stall` is SIGSTOP, and SIGCONT after it.
    """

    after_sends: int
    moment_seconds: float
    target: str
    kind: str
    down_seconds: float


@dataclass(frozen=True, slots=True)
class Round:
    """The whole plan: what each agent sends, and what goes wrong."""

    seed: int
    sends: dict[str, tuple[Step, ...]]
    faults: tuple[Fault, ...]


def limits(seed: int) -> dict[str, Any]:
    """The limits of the deployment that plays a leg."""
    return _LIMITS | random.Random(f"leg {seed}").choice(_TEMPERS)


def plan(seed: int) -> Round:
    """The round of a seed."""
    rng = random.Random(f"round {seed}")
    sends = {agent: tuple(_steps(random.Random(f"round {seed} {agent}"), agent)) for agent in AGENTS}
    steps = sum(map(len, sends.values()))
    faults = sorted(
        (_fault(rng, steps) for _ in range(rng.randint(_FAULTS_MIN, _FAULTS_MAX))), key=lambda fault: fault.after_sends
    )
    return Round(seed, sends, tuple(faults))


def _steps(rng: random.Random, agent: str) -> list[Step]:
    told: list[tuple[dict[str, Any], ...]] = []
    steps = []
    for _ in range(rng.randint(_SENDS_MIN, _SENDS_MAX)):
        if told and rng.random() < 0.15:
            messages = rng.choice(told)  # an agent that is not sure says it again, much later
        else:
            count = rng.randint(2, 6) if rng.random() < 0.15 else 1
            messages = tuple(message(rng, agent) for _ in range(count))
            told.append(messages)
        steps.append(Step(rng.uniform(0, _THINK_SECONDS_MAX), messages, 2 if rng.random() < 0.1 else 1))
    return steps


def message(rng: random.Random, agent: str) -> dict[str, Any]:
    """A note of `agent` to a channel it belongs to, or to anybody."""
    channels = [name for name, members in CHANNELS.items() if agent in members]
    to = rng.choice(channels) if rng.random() < 0.5 else "@" + rng.choice(list(AGENTS))
    note = {
        "to": to,
        "type": "note/1",
        "payload": _payload(rng),
        "idempotency_key": str(UUID(int=rng.getrandbits(128), version=4)),
    }
    if rng.random() < 0.6:
        note["task_id"] = f"task-{rng.randint(1, 4)}"
    if rng.random() < 0.2:
        note["thread_id"] = "thread " + rng.choice(_TEXTS[:2])
    return note


def _payload(rng: random.Random) -> dict[str, Any]:
    size = rng.choice((0, 0, 0, 10, 1_000, 20_000))
    return {
        "text": rng.choice(_TEXTS) + "x" * rng.randint(0, size),
        "numbers": [rng.randint(-(2**53) + 1, 2**53 - 1), rng.random(), 1.0, 1e300, -0.5],
        "nested": {"null": None, "yes": True, "list": [[], {}, [1, "1"]]},
    }


def _fault(rng: random.Random, steps: int) -> Fault:
    target = "adapter" if rng.random() < 0.55 else rng.choice(list(AGENTS))
    (kind,) = rng.choices(list(_KINDS), list(_KINDS.values()))
    down_seconds = rng.uniform(0, _STALL_SECONDS_MAX if kind == "stall" else _DOWN_SECONDS_MAX)
    return Fault(rng.randint(1, steps), rng.uniform(0, 0.03), target, kind, down_seconds)
