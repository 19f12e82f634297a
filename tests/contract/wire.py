"""Samples of everything on the wire, made by the code that makes the real ones, from a fixed key and a fixed time.

`python -m tests.contract.wire` writes them to `golden/`. Do that only when the wire is meant to change: deployed
sidecars, stores and clients hold the old bytes.
"""

from pathlib import Path
from typing import Any, Final

from adapter.core.alarms import Alarm, AlarmKind, Audience
from adapter.core.alerts import alert
from adapter.core.dead_letters import Filter
from adapter.core.replay_job import ReplayJob
from adapter.core.tallies import Telling
from adapter.http.replays import job_view
from shared.api import (
    Accepted,
    AckAnswer,
    AckOutcome,
    AckRequest,
    Delivery,
    Gap,
    NackRequest,
    PollAnswer,
    Queued,
    ReceiveAnswer,
    ReceiveRequest,
    RecipientStatus,
    Scheduled,
)
from shared.canonical import canonical
from shared.envelope import StoredEnvelope, content_sha256
from shared.keys import Key, Keyring
from shared.link import MESSAGES_PATH, PollRequest
from shared.problems import KINDS, Problem
from shared.replays import ReplayJobRequest
from shared.signing import sign_answer, sign_envelope, sign_request
from shared.strict_json import encode
from shared.times import iso

GOLDEN: Final = Path(__file__).with_name("golden")
NOW_US: Final = 1_700_000_000_123_456
KEYRING: Final = Keyring("pm", (Key("pm-00000001", bytes(range(32))),))
IDEMPOTENCY_KEY: Final = "018bcfe5-687b-7000-8000-000000000001"

ENVELOPE: Final[dict[str, Any]] = {
    "idempotency_key": IDEMPOTENCY_KEY,
    "sender": "pm",
    "to": "product",
    "type": "task.assign/1",
    "payload": {"title": 'Überprüfe "A/B" \u2028 \U0001f600', "effort": 1.5, "steps": [1, -2, 1e-7], "done": False},
    "thread_id": "thread-1",
    "correlation_id": "correlation-1",
    "reply_to_sequence_id": 46,
    "task_id": "task-1",
    "parent_task_id": "task-0",
    "deadline": "2023-11-15T00:00:00+01:00",
    "context": {"\ufb33": 1, "\U0001f600": 2, "a": None},
    "receipts": [{"file_id": "file-1", "sha256": "0" * 64, "bytes": 0}],
    "usage": {"tokens": 1234},
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}


REPLACING: Final[dict[str, Any]] = {
    "idempotency_key": IDEMPOTENCY_KEY,
    "sender": "orchestrator",
    "to": "@qa",
    "type": "note/1",
    "payload": {"text": "mended"},
    "replaces": {"recipient": "qa", "channel": "product", "channel_sequence_id": 45},
}
JOB: Final = ReplayJob(
    IDEMPOTENCY_KEY, Filter("qa", "expired", NOW_US), 20.0, 500, NOW_US, 510, {"qa": 7}, ("qa",), 40, 2
)


def signed() -> dict[str, Any]:
    """The envelope as its sidecar submits it."""
    return sign_envelope(ENVELOPE, KEYRING.current, NOW_US)


def stored() -> dict[str, Any]:
    """The envelope as its receivers get it."""
    return {**signed(), "channel_sequence_id": 47, "timestamp_iso8601": iso(NOW_US), "priority": "normal"}


def headers() -> dict[str, Any]:
    """Both signature headers of one exchange on the link."""
    body = encode({"envelopes": [signed()]})
    request = sign_request("POST", MESSAGES_PATH, body, KEYRING, NOW_US)
    answer = sign_answer(KEYRING.current, request, 200, b'{"outcomes":[]}')
    return {"Multiclaw-Signature": request, "Multiclaw-Answer-Signature": answer}


def dump(model: Any) -> Any:
    """A model as it is answered: by wire names, without what was not set."""
    return model.model_dump(by_alias=True, exclude_unset=True)


def accepted() -> Accepted:
    """The answer to a send that was committed."""
    return Accepted(
        status="accepted",
        channel="product",
        channel_sequence_id=47,
        timestamp_iso8601=iso(NOW_US),
        idempotency_key=IDEMPOTENCY_KEY,
        recipients=[
            RecipientStatus(agent="qa", status="leased", unread=1, last_seen=iso(NOW_US)),
            RecipientStatus(agent="research", status="dead", reason="overflow", unread=500, last_seen=None),
        ],
    )


def scheduled() -> Scheduled:
    """The answer to a send that waits for its time."""
    return Scheduled(status="scheduled", deliver_at=iso(NOW_US), idempotency_key=IDEMPOTENCY_KEY, duplicate=False)


def polled() -> PollAnswer:
    """The answer to a poll."""
    delivery = Delivery(
        delivery_id="d-1",
        attempt=2,
        redelivered=True,
        lease_expires_at=iso(NOW_US),
        envelope=StoredEnvelope.model_validate(stored()),
    )
    return PollAnswer(messages=[delivery], gaps=[Gap.model_validate({"channel": "product", "from": 45, "to": 46})])


def received() -> ReceiveAnswer:
    """The answer to a poll that carried acks."""
    acks = AckOutcome(code=200, answer=AckAnswer(acked=["d-1"]))
    return ReceiveAnswer(messages=polled().messages, gaps=[], acks=acks)


def problems() -> list[dict[str, Any]]:
    """Every kind as a bare document, and one with all members."""
    full = Problem("stale-lease", "Gone.", field="/delivery_ids/0", retry_after=1.5, stale=["d-1"], acked=[])
    return [*(Problem(kind, "Why, and what to do.").document() for kind in KINDS), full.document()]


def escalated() -> dict[str, Any]:
    """What the adapter itself sends: here, to the Human Governor."""
    telling = Telling(Alarm(AlarmKind.DEAD_LETTER, "qa", "refused"), Audience.GOVERNOR, 10, NOW_US)
    return alert(telling, "@human-governor", {"unread": 2, "last_seen": None}, 7).envelope


def samples() -> dict[str, bytes]:
    """The bytes of each sample, by the name of its golden file."""
    lines = {
        "envelope-signed.json": signed(),
        "envelope-stored.json": stored(),
        "envelope-replacing.json": sign_envelope(REPLACING, KEYRING.current, NOW_US),
        "signature-headers.json": headers(),
        "accepted.json": dump(accepted()),
        "queued.json": dump(Queued(status="queued", outbox_position=1, idempotency_key=IDEMPOTENCY_KEY)),
        "alert.json": escalated(),
        "scheduled.json": dump(scheduled()),
        "poll-answer.json": dump(polled()),
        "poll-request.json": dump(PollRequest(wait=30.0, max=10)),
        "ack-request.json": dump(AckRequest(delivery_ids=["d-1"], results={"d-1": {"ok": True}})),
        "receive-request.json": dump(ReceiveRequest(wait=30.0, max=10, acks=AckRequest(delivery_ids=["d-1"]))),
        "receive-answer.json": dump(received()),
        "nack-request.json": dump(NackRequest(delivery_id="d-1", mode="refuse", reason="poison")),
        "replay-job-request.json": dump(ReplayJobRequest(id=IDEMPOTENCY_KEY, recipient="qa", rate=20.0, limit=500)),
        "replay-job.json": job_view(JOB),
        "problems.json": problems(),
        "content-sha256.json": content_sha256(signed()).hex(),
    }
    return {"envelope-canonical.json": canonical(signed())} | {name: encode(value) for name, value in lines.items()}


if __name__ == "__main__":
    for name, data in samples().items():
        (GOLDEN / name).write_bytes(data + b"\n")
