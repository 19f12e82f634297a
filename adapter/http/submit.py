"""Sends: each envelope of a request is checked apart, all that pass enter one group, and each has its own outcome."""

import logging
from typing import Any

from adapter.broker import Broker
from adapter.core.commands import RecipientReport, Scheduled, Send, SendBatch, Sent
from adapter.core.contract import Registry, role_of
from adapter.core.expiry import ends_at_us
from adapter.core.routing import order_key
from adapter.core.sending import held_back
from adapter.http.auth import LinkAuth
from adapter.http.roster import Roster
from shared.clock import Clock
from shared.envelope import Envelope, content_sha256
from shared.link import SubmitRequest
from shared.model import check
from shared.problems import Problem
from shared.signing import verify_envelope
from shared.strict_json import encode
from shared.times import from_iso, iso
from shared.web.routes import Answer, Call, json_answer

_log = logging.getLogger(__name__)


class Submit:
    """`POST /link/v1/messages`."""

    def __init__(
        self,
        broker: Broker,
        auth: LinkAuth,
        roster: Roster,
        registry: Registry,
        clock: Clock,
        envelope_bytes_max: int,
    ) -> None:
        self._broker = broker
        self._auth = auth
        self._roster = roster
        self._registry = registry
        self._clock = clock
        self._envelope_bytes_max = envelope_bytes_max

    async def handle(self, call: Call) -> Answer:
        """200 with an outcome per envelope, in order. After one to be tried again, the rest are held back."""
        envelopes = check(SubmitRequest, call.json()).envelopes
        checked = self._check(envelopes, call)
        batch = SendBatch(tuple(entry for entry in checked if isinstance(entry, Send)))
        committed = iter(await self._broker.ask(batch) if batch.sends else ())
        outcomes = [
            _outcome(next(committed) if isinstance(entry, Send) else entry, envelope)
            for entry, envelope in zip(checked, envelopes, strict=True)
        ]
        return json_answer(200, {"outcomes": outcomes})

    def _check(self, envelopes: list[dict[str, Any]], call: Call) -> list[Send | Problem]:
        checked: list[Send | Problem] = []
        for envelope in envelopes:
            if checked and isinstance(checked[-1], Problem) and _comes_again(checked[-1]):
                checked.append(held_back())
                continue
            try:
                checked.append(self.command(envelope, call.agent, len(call.body)))
            except Problem as problem:
                checked.append(problem)
            except Exception:  # a fault of ours at one message must not be that of its neighbours
                _log.exception("message-unhandled")
                checked.append(Problem("internal", "This is a fault of ours at this message; the log has more."))
        return checked

    def command(self, envelope: dict[str, Any], agent: str, body_bytes: int) -> Send:
        """The command of a signed envelope; raises a `Problem` for anything that is not right with it."""
        model = check(Envelope, envelope)
        if model.sender != agent:
            detail = f"The sidecar of {agent!r} cannot send as {model.sender!r}."
            raise Problem("sender-forged", detail, field="/sender")
        verify_envelope(envelope, self._auth.keyring(agent), self._clock.wall_us())
        if body_bytes > self._envelope_bytes_max:  # else no envelope of the request can be over it
            self._check_size(envelope)
        contract = self._registry.find(model.type)
        contract.check(envelope, role_of(agent, self._roster.topology.roles))
        return Send(
            envelope=envelope,
            sender=agent,
            idempotency_key=bytes.fromhex(model.idempotency_key.replace("-", "")),
            content_sha256=content_sha256(envelope),
            channel=model.to,
            order_key=order_key(envelope),
            critical=contract.critical,
            rate_class=contract.rate_class,
            keep_forever=contract.definition.retention == "contract",
            expires_at_us=ends_at_us(model.deadline, model.expires_at),
            deliver_at_us=None if model.deliver_at is None else from_iso(model.deliver_at),
        )

    def _check_size(self, envelope: dict[str, Any]) -> None:
        size = len(encode({k: v for k, v in envelope.items() if k != "signature"}))
        if size > self._envelope_bytes_max:
            detail = f"The envelope has {size} bytes; the limit is {self._envelope_bytes_max}. Send a file receipt."
            raise Problem("message-too-large", detail, field="")


def _comes_again(problem: Problem) -> bool:
    """Whether the sidecar sends this message again: after a fault of ours it does, a few times."""
    return problem.retryable or problem.kind == "internal"


def _outcome(entry: Sent | Scheduled | Problem, envelope: dict[str, Any]) -> dict[str, Any]:
    if isinstance(entry, Problem):
        return {"code": entry.status, "problem": entry.document()}
    if isinstance(entry, Scheduled):
        return {"code": 202, "answer": _scheduled(entry, envelope["idempotency_key"])}
    return {"code": 200 if entry.duplicate else 201, "answer": _accepted(entry, envelope["idempotency_key"])}


def _accepted(sent: Sent, key: str) -> dict[str, Any]:
    return {
        "status": "duplicate" if sent.duplicate else "accepted",
        "channel": sent.channel,
        "channel_sequence_id": sent.sequence,
        "timestamp_iso8601": iso(sent.accepted_at_us),
        "idempotency_key": key,
        "recipients": [_recipient(report) for report in sent.recipients],
    }


def _scheduled(scheduled: Scheduled, key: str) -> dict[str, Any]:
    return {
        "status": "scheduled",
        "deliver_at": iso(scheduled.deliver_at_us),
        "idempotency_key": key,
        "duplicate": scheduled.duplicate,
    }


def _recipient(report: RecipientReport) -> dict[str, Any]:
    reason = {} if report.reason is None else {"reason": report.reason}
    last_seen = None if report.last_seen_us is None else iso(report.last_seen_us)
    return {"agent": report.agent, "status": report.status, "unread": report.unread, "last_seen": last_seen} | reason
