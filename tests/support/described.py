"""An agent's client that holds every answer against the OpenAPI document its sidecar serves."""

import re
from typing import Any

import jsonschema_rs

from tests.support.agent_client import AgentAnswer, AgentClient


class DescribedClient(AgentClient):
    """`describe` first; from then on an answer that the document does not know fails the test."""

    document: dict[str, Any] | None = None

    async def describe(self) -> dict[str, Any]:
        """Read the document, and hold every later answer against it."""
        answer = await super().call("GET", "/openapi.json")
        assert answer.status == 200, answer.document
        self.document = answer.document
        return answer.document

    async def call(
        self, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> AgentAnswer:
        """See `AgentClient`."""
        answer = await super().call(method, target, body, headers)
        if self.document is not None:
            check_described(self.document, method, target, answer)
        return answer


def check_described(document: dict[str, Any], method: str, target: str, answer: AgentAnswer) -> None:
    """Fail unless the operation, the status, the content type and the body are in the document."""
    operation = _operation(document, method, target.partition("?")[0])
    assert str(answer.status) in operation["responses"], f"{method} {target} may answer {answer.status}"
    content = operation["responses"][str(answer.status)]["content"]
    described = {content_type.partition(";")[0] for content_type in content}
    assert answer.content_type in described, (answer.content_type, described)
    schema = next(iter(content.values())).get("schema")
    if schema is not None:
        whole = {"components": document["components"], **schema}
        faults = [fault.message for fault in jsonschema_rs.validator_for(whole).iter_errors(answer.document)]
        assert not faults, f"{method} {target} answered {answer.document}: {faults}"


def _operation(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    for template, operations in document["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            assert method.lower() in operations, f"{method} {path} is not described"
            return dict(operations[method.lower()])
    raise AssertionError(f"{path} is not described")
