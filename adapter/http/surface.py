"""Every route of the link, in one table."""

from adapter.http.backups import BackupRequests
from adapter.http.browse import Browse
from adapter.http.dead_letters import DeadLetters
from adapter.http.governor import GovernorInbox
from adapter.http.health import METRICS_TYPE, Health
from adapter.http.receive import Receive
from adapter.http.replays import Replays
from adapter.http.scheduled import Scheduled
from adapter.http.submit import Submit
from adapter.http.topology import TopologyVersions
from shared import link
from shared import topology as topology_wire
from shared.api import (
    AckAnswer,
    AckRequest,
    BatchAnswer,
    ExtendAnswer,
    ExtendRequest,
    LineageView,
    NackAnswer,
    NackRequest,
    RangeAnswer,
    TaskView,
)
from shared.backups import BACKUPS_PATH, BackupState
from shared.limits import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, RESULT_BYTES_MAX
from shared.web.dead_letters import dead_letter_routes, replay_routes
from shared.web.routes import Query, Route
from shared.web.scheduled import scheduled_routes
from shared.web.topology import topology_routes

_SIGNED = ("signature-invalid", "signature-stale")
_STORE = ("store-unavailable",)
_LEASE = (*_SIGNED, *_STORE, "stale-lease", "unknown-delivery")
_OUTCOMES = (
    "sender-forged", "sender-not-allowed", "approval-required", "not-a-member", "unknown-recipient",
    "unknown-contract", "contract-violation", "idempotency-conflict", "expired", "held-back",
    "queue-full", "not-permitted", "not-dead", "not-found", "rate-limited", "schedule-full", "not-scheduled",
    "message-too-large",
)  # fmt: skip
_ACK_BYTES_MAX = BATCH_MESSAGES_MAX * (RESULT_BYTES_MAX + 256)
_SEQUENCE = {"type": "integer", "minimum": 1}


def routes(  # noqa: PLR0913 - one parameter for each group of operations
    submit: Submit,
    receive: Receive,
    browse: Browse,
    dead_letters: DeadLetters,
    replays: Replays,
    topology: TopologyVersions,
    health: Health,
    *,
    scheduled: Scheduled,
) -> list[Route]:
    """The table."""
    return [
        *scheduled_routes(link.ROOT, scheduled, (*_SIGNED, *_STORE)),
        *dead_letter_routes(link.ROOT, dead_letters, (*_SIGNED, *_STORE)),
        *replay_routes(link.ROOT, replays, (*_SIGNED, *_STORE)),
        *topology_routes(link.ROOT, topology, (*_SIGNED, *_STORE)),
        *_decisions(topology),
        Route(
            "POST", link.MESSAGES_PATH, "submit", "Send signed envelopes; each has its own outcome.", submit.handle,
            {200: BatchAnswer}, body=link.SubmitRequest, body_bytes_max=BATCH_BYTES_MAX,
            problems=(*_SIGNED, *_STORE, *_OUTCOMES),
        ),
        Route(
            "POST", link.POLL_PATH, "poll", "Hand over messages, waiting for the first.", receive.poll,
            {200: link.HandOver}, body=link.PollRequest, body_bytes_max=_ACK_BYTES_MAX, problems=(*_SIGNED, *_STORE),
        ),
        Route(
            "POST", link.ACK_PATH, "ack", "Messages are processed.", receive.ack,
            {200: AckAnswer}, body=AckRequest, body_bytes_max=_ACK_BYTES_MAX, problems=_LEASE,
        ),
        Route(
            "POST", link.NACK_PATH, "nack", "A message is not processed.", receive.nack,
            {200: NackAnswer}, body=NackRequest, problems=_LEASE,
        ),
        Route(
            "POST", link.EXTEND_PATH, "extend", "More time for hand-overs.", receive.extend,
            {200: ExtendAnswer}, body=ExtendRequest, problems=_LEASE,
        ),
        *_reads(browse),
        *_states(health),
    ]  # fmt: skip


def _reads(browse: Browse) -> list[Route]:
    return [
        Route(
            "GET", link.CHANNEL_PATH, "read_channel", "Messages of a channel by sequence, for its members.",
            browse.channel, {200: RangeAnswer},
            query=(
                Query("from", _SEQUENCE, "the first sequence", required=True),
                Query("to", _SEQUENCE, "the last sequence; `from` where it is left out"),
            ),
            problems=(*_SIGNED, *_STORE, "unknown-recipient", "not-a-member", "range-not-retained"),
        ),
        Route(
            "GET", link.OPEN_PATH, "open_messages", "Messages that may still be handed over to the caller.",
            browse.open_messages, {200: link.OpenMessages},
            query=(Query("after", {"type": "integer", "minimum": 0, "default": 0}, "`next` of an earlier page"),),
            problems=(*_SIGNED, *_STORE),
        ),
        Route(
            "GET", link.TASK_PATH, "read_task", "A task as its messages tell it.", browse.task,
            {200: TaskView}, problems=(*_SIGNED, *_STORE, "not-found"),
        ),
        Route(
            "GET", link.LINEAGE_PATH, "read_lineage", "The whole tree of a task.", browse.lineage,
            {200: LineageView}, problems=(*_SIGNED, *_STORE, "not-found"),
        ),
    ]  # fmt: skip


def _states(health: Health) -> list[Route]:
    return [
        Route(
            "GET", "/health", "ready", "Whether messages can be taken and given.", health.ready,
            {200: link.AdapterHealth, 503: link.AdapterHealth}, guarded=False,
        ),
        Route(
            "GET", "/health/live", "alive", "Whether the process answers.", health.alive,
            {200: link.Liveness}, guarded=False,
        ),
        Route(
            "GET", "/metrics", "metrics", "Figures in Prometheus text.", health.metrics,
            {200: METRICS_TYPE}, guarded=False,
        ),
    ]  # fmt: skip


def _decisions(topology: TopologyVersions) -> list[Route]:
    problems = (*_SIGNED, *_STORE, "not-permitted", "not-found", "proposal-closed")
    return [
        Route(
            "POST", link.ROOT + topology_wire.APPROVE_PATH, "approve_topology", "A human takes a proposed version.",
            topology.approve, {200: topology_wire.TopologyVersion}, body=topology_wire.Decision,
            problems=(*problems, "key-missing"),
        ),
        Route(
            "POST", link.ROOT + topology_wire.DENY_PATH, "deny_topology", "A human refuses a proposed version.",
            topology.deny, {200: topology_wire.TopologyVersion}, body=topology_wire.Decision, problems=problems,
        ),
        Route(
            "POST", link.ROOT + topology_wire.WRITTEN_PATH, "note_topology_written",
            "`multiclaw.toml` says what is in force.", topology.written, {200: topology_wire.TopologyVersion},
            problems=problems,
        ),
    ]  # fmt: skip


def inbox_routes(inbox: GovernorInbox) -> list[Route]:
    """What only humans ask for: no sidecar has these routes."""
    problems = (*_SIGNED, *_STORE, "not-permitted")
    limit = {"type": "integer", "minimum": 1, "maximum": link.INBOX_MESSAGES_MAX, "default": link.INBOX_MESSAGES_MAX}
    return [
        Route(
            "GET", link.INBOX_PATH, "read_inbox", "The Human Governor's inbox, for the Governor's key.", inbox.inbox,
            {200: link.InboxPage},
            query=(
                Query("all", {"type": "boolean", "default": False}, "what has been read, too"),
                Query("limit", limit, "most to give"),
                Query("after", {"type": "integer", "minimum": 0}, "`next` of an earlier page"),
            ),
            problems=problems,
        ),
        Route(
            "POST", link.READ_PATH, "mark_read", "A human has read these messages.", inbox.read,
            {200: link.ReadAnswer}, body=link.ReadRequest, problems=problems,
        ),
    ]  # fmt: skip


def backup_routes(backups: BackupRequests) -> list[Route]:
    """The same of backups."""
    problems = (*_SIGNED, "not-permitted")
    return [
        Route(
            "GET", BACKUPS_PATH, "backups", "What became of backups of the store, for the Governor's key.",
            backups.state, {200: BackupState}, problems=problems,
        ),
        Route(
            "POST", BACKUPS_PATH, "make_backup", "Begin a backup of the store, unless one is being made.",
            backups.make, {202: BackupState}, problems=(*problems, *_STORE),
        ),
    ]  # fmt: skip
