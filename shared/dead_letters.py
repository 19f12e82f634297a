"""Dead letters on the wire: what the orchestrator sees of them, and what it can have done. One set of models for the
agents' API and the link."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from shared.api import ProblemDocument
from shared.envelope import Address, Moment, Name, Sequence, StoredEnvelope
from shared.limits import REASON_CHARS_MAX
from shared.model import Model

PATH: Final = "/dead-letters"
"""Below `/link/v1` at the adapter and below `/v1` at a sidecar."""

GROUPS_PATH: Final = f"{PATH}/groups"
REPLAY_PATH: Final = f"{PATH}/replay"
RESOLVE_PATH: Final = f"{PATH}/resolve"
ONE_PATH: Final = f"{PATH}/{{recipient}}/{{channel}}/{{sequence}}"

ITEMS_MAX: Final = 500
"""Dead letters of one request: the largest that one recipient's queue takes back by default."""

ITEMS_DEFAULT: Final = 100

REASONS: Final = ("max-attempts", "refused", "expired", "overflow")

CURSOR_PATTERN: Final = r"^[0-9a-f]{1,15}\.[a-z0-9-]{1,63}$"
Cursor = Annotated[str, Field(pattern=CURSOR_PATTERN, description="`next` of an earlier answer, to go on from there")]
Reason = Literal["max-attempts", "refused", "expired", "overflow"]


class Item(Model):
    """One message for one recipient."""

    recipient: Name
    channel: Address
    channel_sequence_id: Sequence


class Successor(Model):
    """The place of a message that replaces a dead one."""

    channel: str
    channel_sequence_id: int


class DeadLetterView(Item):
    """A delivery that died. `closure` is null while somebody must decide."""

    sender: str
    type: str
    task_id: str | None
    reason: Reason
    detail: str | None = Field(description="the receiver's words, if it gave any")
    cycles: int = Field(description="how often it died")
    died_at: str
    closure: Literal["replayed", "resolved", "resent"] | None
    closed_at: str | None
    note: str | None = Field(description="what was said when it was resolved")
    replaced_by: Successor | None = Field(description="the message that was sent in its stead")


class DeadLetterPage(Model):
    """Open dead letters in the order of their messages. `next` continues a page that was cut."""

    dead_letters: list[DeadLetterView]
    next: str | None


class CycleView(Model):
    """One death: after how many hand-overs in all, and how many failures since the replay before it."""

    reason: Reason
    detail: str | None
    handovers: int
    failures: int
    died_at: str


class DeadLetterRecord(DeadLetterView):
    """All there is to know: its newest ten deaths, oldest first, and the message."""

    history: list[CycleView]
    envelope: StoredEnvelope


class DeadLetterGroup(Model):
    """Open dead letters of one recipient that died for one reason, and when the first and the last of them did."""

    recipient: str
    reason: Reason
    count: int
    oldest: str
    newest: str


class DeadLetterGroups(Model):
    """By recipient, then reason."""

    groups: list[DeadLetterGroup]


class ReplayRequest(Model):
    """Either `items`, or all that match the filters, at most `limit` of them in the order of their messages.

    What died at `cut_off` or later (default: now) is left alone, so that only what was seen is touched.
    """

    items: Annotated[list[Item], Field(min_length=1, max_length=ITEMS_MAX)] | None = None
    recipient: Name | None = None
    reason: Reason | None = None
    cut_off: Moment | None = None
    after: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=ITEMS_MAX)] = ITEMS_DEFAULT
    dry_run: bool = False


class ResolveRequest(Model):
    """These are dealt with by other means; `note` says how."""

    items: Annotated[list[Item], Field(min_length=1, max_length=ITEMS_MAX)]
    note: Annotated[str, Field(max_length=REASON_CHARS_MAX)] | None = None


class ItemOutcome(Item):
    """What became of one: its `status` now, or the `problem` that refused it. In a dry run it is still dead."""

    status: Literal["queued", "dead"] | None = None
    problem: ProblemDocument | None = None


class ReplayAnswer(Model):
    """How many were found, replayed and refused, and each of them. `next` goes on where `limit` cut."""

    dry_run: bool
    cut_off: str
    matched: int
    replayed: int
    refused: int
    outcomes: list[ItemOutcome]
    next: str | None


class ResolveAnswer(Model):
    """How many were resolved and refused, and each of them."""

    resolved: int
    refused: int
    outcomes: list[ItemOutcome]


def item_document(recipient: str, channel: str, sequence: int) -> dict[str, Any]:
    """An `Item` as plain values."""
    return {"recipient": recipient, "channel": channel, "channel_sequence_id": sequence}
