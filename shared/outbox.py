"""An agent's own outbox on the wire: what waits in its sidecar for the adapter, and what the adapter then refused."""

from typing import Any, Final, Literal

from pydantic import Field

from shared.api import ProblemDocument
from shared.envelope import IdempotencyKey
from shared.model import Model

PATH: Final = "/v1/outbox"
REFUSED_PATH: Final = f"{PATH}/dead"
ONE_PATH: Final = f"{PATH}/{{idempotency_key}}"
RESEND_PATH: Final = f"{ONE_PATH}/resend"

ITEMS_MAX: Final = 500
ITEMS_DEFAULT: Final = 100

CURSOR_PATTERN: Final = r"^[0-9a-f]{1,15}$"

Priority = Literal["critical", "normal"]


class _Send(Model):
    """What every view of a send tells."""

    idempotency_key: str
    to: str
    type: str
    priority: Priority = Field(description="by the contract; critical ones may take the last places of the outbox")
    bytes: int = Field(description="of the message as it is stored, without its signature")


class WaitingView(_Send):
    """A send that waits for the adapter."""

    status: Literal["waiting", "in-flight"] = Field(description="in flight: it is being sent just now")
    position: int = Field(description="1 is the next to leave")
    queued_at: str
    age_seconds: float = Field(description="by the wall clock, which may have been set meanwhile")


class WaitingPage(Model):
    """What waits, in the order in which it leaves. `next` continues a page that was cut."""

    waiting: list[WaitingView]
    depth: int = Field(description="how many wait in all")
    outbox_max: int
    critical_reserve: int = Field(description="how many of the places, the last ones, only critical messages take")
    stopped: bool = Field(description="nothing is sent until somebody decides about refused ones: there is no room")
    next: str | None


class RefusedView(_Send):
    """A queued send that the adapter refused for good, and why."""

    status: Literal["dead"]
    refused_at: str
    problem: ProblemDocument | None = Field(description="the adapter's own words")


class RefusedPage(Model):
    """Refused sends, the first that was refused first. `next` continues a page that was cut."""

    dead: list[RefusedView]
    count: int = Field(description="how many there are in all")
    dead_max: int = Field(description="how many are kept; at so many the outbox stops")
    next: str | None


class OutboxRecord(_Send):
    """A waiting or a refused send with its message; what does not apply is null."""

    status: Literal["waiting", "in-flight", "dead"]
    position: int | None
    queued_at: str | None
    age_seconds: float | None
    refused_at: str | None
    problem: ProblemDocument | None
    envelope: dict[str, Any] = Field(description="as it will be signed")


class ResendRequest(Model):
    """Under its own key, or under `new_key`: then the adapter takes it for another message than the one it refused."""

    new_key: IdempotencyKey | None = None


class Dropped(Model):
    """It will not be sent (again). One that waited may have arrived before, by a try whose answer was lost."""

    idempotency_key: str
    status: Literal["dropped"]
    was: Literal["waiting", "dead"]
