"""The OpenAPI document: every route and every refusal is in it, and it describes what really goes over the wire."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from shared.api import AckRequest, PollAnswer, SendRequest
from shared.problems import KINDS, Problem
from shared.strict_json import decode, encode
from shared.web.openapi import document, problems_of
from shared.web.routes import Answer, Call, Query, Route

METHODS = {"get", "put", "post", "delete"}


async def handler(_: Call) -> Answer:
    """Nothing runs here."""
    raise NotImplementedError


ROUTES = [
    Route("POST", "/v1/messages", "send", "Send.", handler, {201: PollAnswer}, SendRequest, problems=("queue-full",)),
    Route(
        "GET",
        "/v1/messages",
        "poll",
        "Poll.",
        handler,
        {200: PollAnswer},
        query=(
            Query("wait", {"type": "number", "minimum": 0}, "seconds"),
            Query("max", {"type": "integer"}, "n", True),
        ),
        problems=("shutting-down",),
    ),
    Route("POST", "/v1/{kind}/{name}/ack", "ack", "Acknowledge.", handler, {200: PollAnswer}, AckRequest),
    Route("GET", "/metrics", "metrics", "Metrics.", handler, {200: "text/plain"}, guarded=False),
]


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """The document, as a client reads it."""
    return json.loads(encode(document("Test", ROUTES)))


def operations(made: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Operations by method and path."""
    return {(m.upper(), path): op for path, item in made["paths"].items() for m, op in item.items()}


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of a document."""
    if isinstance(value, dict):
        yield value
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        yield from walk(item)


def schema(made: dict[str, Any], name: str) -> jsonschema_rs.Draft202012Validator:
    """A validator of one component."""
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": made["components"]}
    )


def test_every_route_is_an_operation(made: dict[str, Any]) -> None:
    """Method, path and a unique operation id of each route, and nothing else, are in the document."""
    found = operations(made)
    assert set(found) == {(route.method, route.path) for route in ROUTES}
    assert sorted(op["operationId"] for op in found.values()) == sorted(route.name for route in ROUTES)
    assert made["openapi"] == "3.1.0"
    assert made["info"] == {"title": "Test", "version": "1"}


def test_every_reference_resolves_and_every_schema_compiles(made: dict[str, Any]) -> None:
    """No `$ref` points nowhere, and each component is a valid JSON Schema of draft 2020-12."""
    for item in walk(made):
        if "$ref" in item:
            target: Any = made
            for step in item["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            assert isinstance(target, dict)
    for name, component in made["components"]["schemas"].items():
        jsonschema_rs.meta.validate({**component, "$schema": "https://json-schema.org/draft/2020-12/schema"})
        assert schema(made, name)


def test_operations_are_complete(made: dict[str, Any]) -> None:
    """Each has a summary, described responses, its parameters, its body, and says whether it is guarded."""
    for route in ROUTES:
        operation = operations(made)[route.method, route.path]
        assert operation["summary"] == route.summary
        assert all(response["description"] for response in operation["responses"].values())
        assert {str(code) for code in route.answers} <= set(operation["responses"])
        assert bool(operation["security"]) is route.guarded
        assert ("requestBody" in operation) is (route.body is not None)
        parameters = {(p["in"], p["name"], p["required"]) for p in operation.get("parameters", [])}
        expected = {("path", part[1:-1], True) for part in route.path.split("/") if part.startswith("{")}
        assert parameters == expected | {("query", q.name, q.required) for q in route.query}


def test_every_problem_of_a_route_is_listed(made: dict[str, Any]) -> None:
    """Under each status stand exactly the kinds that the route may answer with that status."""
    for route in ROUTES:
        listed = set()
        for status, response in operations(made)[route.method, route.path]["responses"].items():
            if "application/problem+json" in response["content"]:
                parts = response["content"]["application/problem+json"]["schema"]["allOf"]
                kinds = parts[1]["properties"]["type"]["enum"]
                assert {KINDS[kind].status for kind in kinds} == {int(status)}
                assert all(f"`{kind}`" in response["description"] for kind in kinds)
                listed |= set(kinds)
        assert listed == set(problems_of(route))


def test_problems_follow_from_the_shape_of_a_route() -> None:
    """Its own kinds, those of any request, and those of a guard, a body, a query or a path parameter."""
    send, poll, ack, metrics = map(problems_of, ROUTES)
    assert {"queue-full", "unauthenticated", "malformed-json", "message-too-large", "unknown-field"} <= set(send)
    assert {"shutting-down", "invalid-field"} <= set(poll)
    assert "malformed-json" not in poll
    assert "invalid-field" in ack
    assert metrics == ["internal", "malformed-request"]


def test_real_problems_fulfil_their_schema(made: dict[str, Any]) -> None:
    """The document of a problem, with all the members that ours have, validates against the published schema."""
    validator = schema(made, "ProblemDocument")
    for kind in KINDS:
        full = Problem(kind, "why", field="/a", retry_after=1.5, errors=[{"field": "/a"}], stale=["x"], allowed="GET")
        assert validator.is_valid(decode(encode(full.document())))
        assert validator.is_valid(decode(encode(Problem(kind, "why").document())))
    assert not validator.is_valid({"type": "internal"})


def test_bodies_are_described_as_they_are_checked(made: dict[str, Any]) -> None:
    """The published schema of a request refuses what the model refuses: strict types and unknown fields."""
    validator = schema(made, "SendRequest")
    good = {"to": "product", "type": "note/1", "payload": None}
    assert validator.is_valid(good)
    for bad in ({**good, "to": 1}, {**good, "to": "A"}, {**good, "x": 1}, {"to": "product"}):
        assert not validator.is_valid(bad)
    gap = {"channel": "product", "from": 1, "to": 2}
    assert schema(made, "PollAnswer").is_valid({"messages": [], "gaps": [gap]})
