"""Contracts: what a type of message means, who may send it, and what its payload must look like.

A contract is data, one JSON file each; adding one is adding a file. This module reads a definition and holds
messages against it.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import jsonschema_rs
from pydantic import AfterValidator, Field

from shared.config import Role
from shared.limits import REASON_CHARS_MAX
from shared.model import Model
from shared.names import ADAPTER, NAME_PATTERN, hint
from shared.problems import Problem
from shared.strict_json import pointer

Intent = Literal["assign", "accept", "decline", "progress", "result", "cancel", "query", "inform", "escalate"]

_TYPE: Final = re.compile(r"[a-z][a-z0-9.-]{0,62}/[1-9][0-9]{0,3}")
_MASK: Final = "this value"  # a refusal must not repeat 256 KiB of payload to its sender
_ENVELOPE_FIELDS: Final = frozenset({"task_id", "parent_task_id", "thread_id", "correlation_id", "deadline"})


def _known_fields(names: list[str]) -> list[str]:
    unknown = set(names) - _ENVELOPE_FIELDS
    if unknown:
        raise ValueError(f"{sorted(unknown)} cannot be required; choose of {sorted(_ENVELOPE_FIELDS)}")
    return names


class ContractDefinition(Model):
    """One contract file."""

    type: Annotated[str, Field(pattern=_TYPE.pattern)]
    intent: Intent
    about: str = Field(description="one sentence for people")
    priority: Literal["critical", "normal"] = "normal"
    retention: Literal["message", "contract"] = "message"
    senders: list[Role | Literal["adapter", "*"]] = Field(description="roles that may send it, or `*`")
    requires: Annotated[list[str], AfterValidator(_known_fields)] = Field(default_factory=list)
    rate_class: Annotated[str, Field(pattern=NAME_PATTERN)] | None = Field(
        default=None, description="whose rate of `[rates.CLASS]` its messages count against; its priority if left out"
    )
    receipts: bool = Field(default=False, description="whether the message must carry file receipts")
    approval: bool = Field(default=False, description="whether a human must approve before it is delivered")
    payload: dict[str, Any] = Field(description="JSON Schema, draft 2020-12")


@dataclass(frozen=True, slots=True)
class Contract:
    """A definition, ready to check with."""

    definition: ContractDefinition
    validator: jsonschema_rs.Draft202012Validator

    @property
    def critical(self) -> bool:
        """Whether its messages are never evicted."""
        return self.definition.priority == "critical"

    @property
    def rate_class(self) -> str:
        """What its messages count against; a class is called as each priority is."""
        return self.definition.rate_class or self.definition.priority

    def check(self, envelope: dict[str, Any], role: str) -> None:
        """Raise a `Problem` unless this sender may send this message under this contract."""
        if "*" not in self.definition.senders and role not in self.definition.senders:
            who = ", ".join(self.definition.senders)
            detail = f"{self.definition.type} is sent by {who}; you are {role!r}."
            raise Problem("sender-not-allowed", detail, field="/type")
        if self.definition.approval:
            detail = f"{self.definition.type} needs a human's approval, and this adapter takes none yet."
            raise Problem("approval-required", detail, field="/type")
        for name in self.definition.requires:
            if envelope.get(name) is None:
                raise Problem("contract-violation", f"{self.definition.type} needs {name}.", field=f"/{name}")
        if self.definition.receipts and not envelope.get("receipts"):
            raise Problem("contract-violation", f"{self.definition.type} needs receipts.", field="/receipts")
        fault = next(self.validator.iter_errors(envelope["payload"]), None)
        if fault is not None:
            where = pointer(("payload", *fault.instance_path))
            raise Problem("contract-violation", f"{where}: {fault.message[:REASON_CHARS_MAX]}.", field=where)


class Registry:
    """Contracts by type."""

    def __init__(self, definitions: list[ContractDefinition]) -> None:
        self._contracts: dict[str, Contract] = {}
        for definition in definitions:
            if definition.type in self._contracts:
                raise ValueError(f"the contract {definition.type} is defined twice")
            self._contracts[definition.type] = Contract(
                definition, jsonschema_rs.Draft202012Validator(definition.payload, mask=_MASK)
            )

    def __len__(self) -> int:
        return len(self._contracts)

    def find(self, kind: str) -> Contract:
        """The contract of that type, or a `Problem` that names the nearest."""
        contract = self._contracts.get(kind)
        if contract is None:
            detail = f"No contract is called {kind!r}.{hint(kind, self._contracts)}"
            raise Problem("unknown-contract", detail, field="/type")
        return contract

    def definitions(self) -> list[ContractDefinition]:
        """All of them, by type."""
        return [self._contracts[kind].definition for kind in sorted(self._contracts)]


def role_of(sender: str, roles: dict[str, str]) -> str:
    """The role a sender speaks in."""
    return "adapter" if sender == ADAPTER else roles[sender]
