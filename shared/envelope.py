"""The envelope of section 3 of the design: what travels, who sets it, and what counts as the same content.

Models here check; the wire form is the checked dictionary itself, so that what arrives is what was written.
"""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StringConstraints

from shared.canonical import canonical
from shared.digests import sha256
from shared.limits import IDENTIFIER_CHARS_MAX
from shared.model import Model
from shared.names import ADDRESS_PATTERN, NAME_PATTERN
from shared.times import from_iso


def _rfc3339(text: str) -> str:
    from_iso(text)
    return text


Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Address = Annotated[str, StringConstraints(pattern=ADDRESS_PATTERN), Field(description="a channel, or `@agent`")]
ContractType = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9.-]{0,62}/[1-9][0-9]{0,3}$"),
    Field(description="contract and version, such as `task.assign/1`"),
]
Identifier = Annotated[
    str,
    StringConstraints(pattern=rf"^[^\x00-\x1f\x7f]{{1,{IDENTIFIER_CHARS_MAX}}}$"),
    Field(description="1 to 128 printable characters"),
]
KEY_PATTERN: Final = r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
"""RFC 9562, section 4. `uuid.UUID` takes more: braces, `urn:`, no hyphens, even a line feed."""

IdempotencyKey = Annotated[
    str,
    StringConstraints(pattern=KEY_PATTERN),
    Field(description="a UUID, unique per sender"),
]
Moment = Annotated[str, AfterValidator(_rfc3339), Field(description="RFC 3339 with an offset")]
Sequence = Annotated[int, Field(ge=1, le=2**53 - 1)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class FileReceipt(Model):
    """A file that travels beside the message, named by what it holds."""

    file_id: Identifier
    sha256: Sha256
    bytes: Annotated[int, Field(ge=0, le=2**53 - 1)]


class Signature(Model):
    """The sidecar's signature over the canonical form of everything else, `signed_at` included."""

    key_id: Identifier
    alg: Annotated[str, StringConstraints(pattern=r"^HMAC-SHA256$")]
    signed_at: Moment
    value: Sha256


class Replaced(Model):
    """A message for one recipient that is dead."""

    recipient: Name
    channel: Address
    channel_sequence_id: Sequence


class Content(Model):
    """What an agent may set."""

    to: Address
    type: ContractType
    payload: Any = Field(description="validated against the contract's schema")
    thread_id: Identifier | None = None
    correlation_id: Identifier | None = None
    reply_to_sequence_id: Sequence | None = None
    task_id: Identifier | None = None
    parent_task_id: Identifier | None = None
    deadline: Moment | None = Field(
        default=None, description="when the work is due; past it, or past `expires_at`, the message is not delivered"
    )
    expires_at: Moment | None = Field(default=None, description="when the message is of no use any more")
    deliver_at: Moment | None = Field(
        default=None, description="not to be sent before; up to 30 days ahead, and a time that has passed means now"
    )
    context: Any = Field(default=None, description="what a cold-started receiver needs")
    replaces: Replaced | None = Field(
        default=None, description="the open dead letter that this message is sent in the stead of; by the orchestrator"
    )
    receipts: list[FileReceipt] | None = Field(default=None, max_length=100)
    usage: dict[str, Any] | None = Field(default=None, description="cost reported by this step")
    traceparent: (
        Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")] | None
    ) = None
    tracestate: Annotated[str, StringConstraints(max_length=512, pattern=r"^[\x20-\x7e]*$")] | None = None


class Identified(Content):
    """Content, and whose it is."""

    idempotency_key: IdempotencyKey
    sender: Name


class Envelope(Identified):
    """What a sidecar submits: content, identity and signature."""

    signature: Signature


class StoredEnvelope(Identified):
    """What a receiver gets: the envelope and what the adapter set."""

    signature: Signature | None = Field(default=None, description="none on what the adapter itself sends")
    channel_sequence_id: Sequence
    timestamp_iso8601: Moment
    priority: Annotated[str, StringConstraints(pattern=r"^(critical|normal)$")]
    inherited: list[str] | None = Field(
        default=None, description="fields the adapter filled in from the message replied to; not signed"
    )


ADAPTER_FIELDS: Final = frozenset({"channel_sequence_id", "timestamp_iso8601", "priority", "inherited"})

_NOT_CONTENT: Final = frozenset({"idempotency_key", "signature", "traceparent", "tracestate"})


def content_sha256(envelope: dict[str, Any]) -> bytes:
    """What makes two sends "the same": everything but key, signature and trace, which a retry may renew."""
    return sha256(canonical({k: v for k, v in envelope.items() if k not in _NOT_CONTENT})).digest()
