"""The route table of a sidecar: served, guarded and documented from here."""

from typing import Final

from shared import outbox as outbox_wire
from shared.api import (
    Accepted,
    AckAnswer,
    AckRequest,
    BatchAnswer,
    BatchRequest,
    EmergencyAnswer,
    EmergencyRequest,
    ExtendAnswer,
    ExtendRequest,
    Later,
    LineageView,
    NackAnswer,
    NackRequest,
    PollAnswer,
    Queued,
    RangeAnswer,
    ReceiveAnswer,
    ReceiveRequest,
    SendRequest,
    SidecarHealth,
    TaskView,
)
from shared.limits import BATCH_BYTES_MAX, POLL_MESSAGES_MAX, POLL_WAIT_SECONDS_MAX
from shared.web.dead_letters import dead_letter_routes, replay_routes
from shared.web.routes import Query, Route, paging
from shared.web.scheduled import scheduled_routes
from shared.web.topology import topology_routes
from sidecar.gateway.dead_letters import DeadLetters
from sidecar.gateway.emergencies import Emergencies
from sidecar.gateway.outbox import OutboxAccess
from sidecar.gateway.receiving import MESSAGES_DEFAULT, Receiving
from sidecar.gateway.replays import Replays
from sidecar.gateway.scheduled import Scheduled
from sidecar.gateway.sending import Sending
from sidecar.gateway.state import METRICS_TYPE, State
from sidecar.gateway.topology import Topology
from sidecar.gateway.viewing import Viewing

_SEND_PROBLEMS: Final = (
    "sender-forged", "sender-not-allowed", "approval-required", "not-a-member", "unknown-recipient",
    "unknown-contract", "contract-violation", "idempotency-conflict", "expired", "queue-full", "outbox-full",
    "not-permitted", "not-dead", "not-found", "schedule-full", "not-scheduled", "store-unavailable",
)  # fmt: skip
_LINK_PROBLEMS: Final = ("adapter-unreachable", "store-unavailable", "shutting-down")

_ESCAPED: Final = 3
"""A body may be this many times its compact form: `\\uXXXX` takes six bytes for a character of two."""


def routes(  # noqa: PLR0913 - one parameter for each group of operations
    sending: Sending,
    receiving: Receiving,
    viewing: Viewing,
    dead_letters: DeadLetters,
    replays: Replays,
    state: State,
    emergencies: Emergencies,
    *,
    topology: Topology,
    scheduled: Scheduled,
    outbox: OutboxAccess,
    envelope_bytes_max: int,
) -> list[Route]:
    """Every operation of the agents' API."""
    send_bytes_max = _ESCAPED * envelope_bytes_max
    return [
        *_sends(sending, send_bytes_max),
        *_receives(receiving),
        *_views(viewing),
        *dead_letter_routes("/v1", dead_letters, _LINK_PROBLEMS),
        *replay_routes("/v1", replays, _LINK_PROBLEMS),
        *topology_routes("/v1", topology, _LINK_PROBLEMS),
        *scheduled_routes("/v1", scheduled, _LINK_PROBLEMS),
        *_outbox(outbox),
        *_states(state, emergencies),
    ]


def _sends(sending: Sending, bytes_max: int) -> list[Route]:
    return [
        Route(
            "POST", "/v1/messages", "send", "Send a message.", sending.one,
            {201: Accepted, 200: Accepted, 202: Later},
            body=SendRequest, body_bytes_max=bytes_max, problems=_SEND_PROBLEMS,
        ),
        Route(
            "POST", "/v1/messages/batch", "sendBatch", "Send up to 100 messages.", sending.batch,
            {200: BatchAnswer},
            body=BatchRequest, body_bytes_max=max(bytes_max, BATCH_BYTES_MAX),
        ),
    ]  # fmt: skip


def _receives(receiving: Receiving) -> list[Route]:
    wait = Query(
        "wait", {"type": "number", "minimum": 0, "maximum": POLL_WAIT_SECONDS_MAX, "default": 0},
        "seconds to wait for the first message; a deployment may grant less",
    )  # fmt: skip
    count = Query(
        "max", {"type": "integer", "minimum": 1, "maximum": POLL_MESSAGES_MAX, "default": MESSAGES_DEFAULT},
        "most messages to hand over",
    )  # fmt: skip
    leases = (*_LINK_PROBLEMS, "stale-lease", "unknown-delivery")
    return [
        Route(
            "GET", "/v1/messages", "poll", "Take messages, waiting for the first.", receiving.poll,
            {200: PollAnswer}, query=(wait, count), problems=_LINK_PROBLEMS,
        ),
        Route(
            "POST", "/v1/messages/receive", "receive", "Acknowledge messages and take the next, in one request.",
            receiving.receive, {200: ReceiveAnswer}, body=ReceiveRequest, body_bytes_max=BATCH_BYTES_MAX,
            problems=leases,
        ),
        Route(
            "POST", "/v1/messages/ack", "ack", "Say that messages are processed.", receiving.ack,
            {200: AckAnswer}, body=AckRequest, body_bytes_max=BATCH_BYTES_MAX, problems=leases,
        ),
        Route(
            "POST", "/v1/messages/nack", "nack", "Say that a message is not processed.", receiving.nack,
            {200: NackAnswer}, body=NackRequest, problems=leases,
        ),
        Route(
            "POST", "/v1/messages/extend", "extend", "Ask for more time.", receiving.extend,
            {200: ExtendAnswer}, body=ExtendRequest, problems=leases,
        ),
    ]  # fmt: skip


def _views(viewing: Viewing) -> list[Route]:
    sequence = {"type": "integer", "minimum": 1}
    bounds = (
        Query("from", sequence, "first sequence", required=True),
        Query("to", sequence, "last sequence", required=True),
    )
    return [
        Route(
            "GET", "/v1/channels/{channel}/messages", "range", "Read a channel by sequence.", viewing.channel,
            {200: RangeAnswer}, query=bounds,
            problems=(*_LINK_PROBLEMS, "not-found", "not-a-member", "unknown-recipient", "range-not-retained"),
        ),
        Route(
            "GET", "/v1/tasks/{task_id}", "task", "The state of a task.", viewing.task,
            {200: TaskView}, problems=(*_LINK_PROBLEMS, "not-found"),
        ),
        Route(
            "GET", "/v1/tasks/{task_id}/lineage", "lineage", "The tree of a task.", viewing.lineage,
            {200: LineageView}, problems=(*_LINK_PROBLEMS, "not-found"),
        ),
    ]  # fmt: skip


def _outbox(outbox: OutboxAccess) -> list[Route]:
    pages = paging(outbox_wire.ITEMS_DEFAULT, outbox_wire.ITEMS_MAX, outbox_wire.CURSOR_PATTERN)
    one = ("store-unavailable", "not-found")
    return [
        Route(
            "GET", outbox_wire.PATH, "list_outbox", "Sends that wait for the adapter.", outbox.waiting,
            {200: outbox_wire.WaitingPage}, query=pages, problems=("store-unavailable",),
        ),
        Route(
            "GET", outbox_wire.REFUSED_PATH, "list_refused", "Queued sends that the adapter refused for good.",
            outbox.refused, {200: outbox_wire.RefusedPage}, query=pages, problems=("store-unavailable",),
        ),
        Route(
            "GET", outbox_wire.ONE_PATH, "read_outbox", "One of them, with its message.", outbox.one,
            {200: outbox_wire.OutboxRecord}, problems=one,
        ),
        Route(
            "POST", outbox_wire.RESEND_PATH, "resend_refused", "Queue a refused send again.", outbox.resend,
            {202: Queued}, body=outbox_wire.ResendRequest, problems=(*one, "outbox-full", "idempotency-conflict"),
        ),
        Route(
            "DELETE", outbox_wire.ONE_PATH, "drop_outbox", "Throw a waiting or a refused send away.", outbox.drop,
            {200: outbox_wire.Dropped}, problems=(*one, "in-flight"),
        ),
    ]  # fmt: skip


def _states(state: State, emergencies: Emergencies) -> list[Route]:
    return [
        Route(
            "POST", "/v1/emergency", "emergency", "Call for help without the adapter.", emergencies.record,
            {201: EmergencyAnswer}, body=EmergencyRequest,
        ),
        Route(
            "GET", "/health", "health", "How the sidecar is.", state.health,
            {200: SidecarHealth}, problems=("store-unavailable",), guarded=False,
        ),
        Route(
            "GET", "/metrics", "metrics", "Counters for Prometheus.", state.metrics,
            {200: METRICS_TYPE}, guarded=False,
        ),
    ]  # fmt: skip
