"""Contracts: data that says what a message means and who may send it."""

import json
from pathlib import Path

import pytest

from adapter.contracts import load_registry
from adapter.core.contract import ContractDefinition, Registry, role_of
from shared.config import RATES_DEFAULT, ConfigurationFault
from shared.model import check
from shared.problems import Problem
from tests.support.factories import ROLES, envelope

SHIPPED = load_registry(Path("/nonexistent"), RATES_DEFAULT)
DESIGN = {
    "task.assign/1", "task.accept/1", "task.decline/1", "task.progress/1", "task.result/1", "task.cancel/1",
    "review.request/1", "query/1", "answer/1", "finding/1", "note/1", "policy.update/1", "governance.directive/1",
    "escalation/1", "file.delete/1",
}  # fmt: skip
INTENTS = {"assign", "accept", "decline", "progress", "result", "cancel", "query", "inform", "escalate"}


def definition(**fields):
    return check(
        ContractDefinition,
        {"type": "x/1", "intent": "inform", "about": "A test.", "senders": ["*"], "payload": {}} | fields,
    )


def refusal(contract, message, role="execution"):
    with pytest.raises(Problem) as caught:
        contract.check(message, role)
    return caught.value


def only(**fields):
    return Registry([definition(**fields)]).find("x/1")


def test_every_contract_of_the_design_is_shipped():
    """Section 3 lists them; alerts and the watcher's alarms come on top."""
    types = {d.type for d in SHIPPED.definitions()}
    assert types >= DESIGN
    assert all(kind.startswith("alert.") for kind in types - DESIGN - {"alarm/1"})
    assert len(SHIPPED) == len(types)


def test_the_shipped_contracts_use_every_intent():
    """Nine intents, each of use."""
    assert {d.intent for d in SHIPPED.definitions()} == INTENTS


def test_alerts_are_sent_by_the_adapter_alone():
    """No agent can raise one in its name."""
    for kind in (d.type for d in SHIPPED.definitions() if d.type.startswith("alert.")):
        for role in set(ROLES.values()):
            assert refusal(SHIPPED.find(kind), envelope(type=kind), role).kind == "sender-not-allowed"


def test_a_deletion_waits_for_a_human():
    """Until approvals exist, it is refused."""
    assert refusal(SHIPPED.find("file.delete/1"), envelope(type="file.delete/1")).kind == "approval-required"


def test_an_unknown_type_is_answered_with_the_nearest():
    """A typo is cheap to mend."""
    with pytest.raises(Problem, match=r"Did you mean 'task\.assign/1'") as caught:
        SHIPPED.find("task.asign/1")
    assert (caught.value.kind, caught.value.field) == ("unknown-contract", "/type")


def test_a_sender_of_another_role_is_refused():
    """The roles are named, so that the sender knows whom to ask."""
    problem = refusal(only(senders=["orchestrator"]), envelope(), "pm")
    assert (problem.kind, problem.field) == ("sender-not-allowed", "/type")
    assert "orchestrator" in problem.detail


@pytest.mark.parametrize("fields", [{}, {"task_id": None}])
def test_a_required_field_must_be_there_and_not_null(fields):
    """`null` fulfils nothing."""
    problem = refusal(only(requires=["task_id"]), envelope(**fields))
    assert (problem.kind, problem.field) == ("contract-violation", "/task_id")


def test_receipts_that_are_required_must_be_there():
    """An empty list is none."""
    assert refusal(only(receipts=True), envelope(receipts=[])).field == "/receipts"


def test_a_payload_fault_is_pointed_at():
    """The pointer leads into the payload."""
    schema = {"properties": {"a": {"items": {"type": "integer"}}}}
    problem = refusal(only(payload=schema), envelope(payload={"a": [1, "x"]}))
    assert (problem.kind, problem.field) == ("contract-violation", "/payload/a/1")


def test_a_refusal_does_not_repeat_the_payload():
    """What may be 256 KiB is not sent back."""
    problem = refusal(only(payload={"type": "object"}), envelope(payload=["y" * 100_000]))
    assert len(problem.detail) < 2_000


def test_a_key_of_the_payload_is_not_repeated_at_length():
    """Names that a sender made up are cut."""
    problem = refusal(only(payload={"additionalProperties": False}), envelope(payload={"y" * 100_000: 1}))
    assert len(problem.detail) < 2_000


def test_an_adapter_speaks_in_a_role_of_its_own():
    """And agents in theirs."""
    assert role_of("adapter", ROLES) == "adapter"
    assert role_of("pm", ROLES) == "pm"


def test_every_contract_has_a_rate_class(tmp_path):
    """Its priority where it names none; progress has one of its own, so that chatter delays no work (ADR 16)."""
    classes = {kind: SHIPPED.find(kind).rate_class for kind in ("note/1", "task.cancel/1", "task.progress/1")}
    assert classes == {"note/1": "normal", "task.cancel/1": "critical", "task.progress/1": "progress"}


def test_a_rate_class_that_nobody_configured_is_a_fault(tmp_path):
    """The fault names the table that is missing and the nearest that is there."""
    document = json.loads(definition().model_dump_json()) | {"rate_class": "progres"}
    (tmp_path / "x.json").write_text(json.dumps(document))
    with pytest.raises(ConfigurationFault, match=r"no table \[rates.progres\]. Did you mean 'progress'"):
        load_registry(tmp_path, RATES_DEFAULT)
    assert load_registry(tmp_path, {**RATES_DEFAULT, "progres": RATES_DEFAULT["normal"]}).find("x/1").rate_class


def test_a_contract_folder_adds_to_the_shipped_ones(tmp_path):
    """A deployment adds a contract by adding a file."""
    (tmp_path / "x.json").write_bytes(definition().model_dump_json().encode())
    assert load_registry(tmp_path, RATES_DEFAULT).find("x/1").definition.intent == "inform"


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"intent": "wish"}, "intent"),
        ({"type": "note/1"}, "twice"),
        ({"payload": {"type": "no-such-type"}}, "fit together"),
        ({"requires": ["payload"]}, "requires"),
        ({"surprise": 1}, "surprise"),
        ({"senders": ["king"]}, "senders"),
    ],
)
def test_a_contract_file_that_cannot_be_used_stops_the_start(tmp_path, fields, word):
    """With a word on what is wrong."""
    document = json.loads(definition().model_dump_json()) | fields
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(ConfigurationFault, match=word):
        load_registry(tmp_path, RATES_DEFAULT)
