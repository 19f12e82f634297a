"""A surface is a table of routes. The server, the guards and the OpenAPI document all read the same table."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from aiohttp import web
from pydantic import BaseModel

from shared.problems import CONTENT_TYPE, Problem
from shared.signing import REQUEST_HEADER
from shared.strict_json import decode_object, encode

JSON: Final = "application/json"
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


@dataclass(slots=True)
class Call:
    """One request, read to its end. `agent` is set by the guard that let it in."""

    request: web.BaseRequest
    route: "Route"
    path: Mapping[str, str]
    body: bytes
    agent: str = ""

    def json(self) -> dict[str, Any]:
        """The body, which must be a JSON object and say so."""
        if self.request.content_type != JSON:
            raise Problem("unsupported-media-type", f"Send Content-Type: {JSON}.", field="header Content-Type")
        return decode_object(self.body)

    def query(self, name: str, default: str | None = None) -> str:
        """One query parameter; required where there is no default."""
        value = self.request.query.get(name, default)
        if value is None:
            raise Problem("invalid-field", f"The query parameter {name!r} is required.", field=f"query {name}")
        return value

    def query_int(self, name: str, default: int | None, low: int, high: int) -> int:
        """A whole number within bounds."""
        text = self.query(name, None if default is None else str(default))
        if not re.fullmatch(r"\d{1,16}", text, re.ASCII) or not low <= int(text) <= high:
            detail = f"{name!r} must be a whole number from {low} to {high}."
            raise Problem("invalid-field", detail, field=f"query {name}")
        return int(text)

    def query_float(self, name: str, default: float, low: float, high: float) -> float:
        """A decimal number within bounds."""
        text = self.query(name, str(default))
        if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII) or not low <= float(text) <= high:
            detail = f"{name!r} must be a number from {low:g} to {high:g}."
            raise Problem("invalid-field", detail, field=f"query {name}")
        return float(text)


@dataclass(slots=True)
class Answer:
    """A response. `undelivered` runs when the client was gone before the answer was written."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    undelivered: Callable[[], None] | None = None


def json_answer(status: int, value: Any) -> Answer:
    """An answer of JSON made from plain values."""
    return Answer(status, encode(value))


def problem_answer(problem: Problem) -> Answer:
    """An answer of `application/problem+json`, with `Retry-After` where waiting helps."""
    headers = {} if problem.retry_after is None else {"Retry-After": str(max(1, round(problem.retry_after)))}
    if problem.kind == "method-not-allowed":
        headers["Allow"] = problem.extra["allowed"]  # RFC 9110, section 15.5.6
    return Answer(problem.status, encode(problem.document()), CONTENT_TYPE, headers)


@dataclass(frozen=True, slots=True)
class Security:
    """How callers prove who they are: what a 401 asks for, and how the OpenAPI document describes it."""

    challenge: str
    definition: Mapping[str, str]


BEARER: Final = Security("Bearer", {"type": "http", "scheme": "bearer"})
SIGNATURE: Final = Security(REQUEST_HEADER, {"type": "apiKey", "in": "header", "name": REQUEST_HEADER})

Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter, for the document."""

    name: str
    schema: dict[str, Any]
    description: str
    required: bool = False


def paging(items_default: int, items_max: int, cursor_pattern: str) -> tuple[Query, Query]:
    """The parameters of every list that is given by pages."""
    return (
        Query(
            "limit", {"type": "integer", "minimum": 1, "maximum": items_max, "default": items_default}, "most to give"
        ),
        Query("after", {"type": "string", "pattern": cursor_pattern}, "`next` of an earlier page"),
    )


@dataclass(frozen=True, slots=True)
class Route:
    """One operation: how it is reached, what goes in, what comes out, and which problems it has of its own."""

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    answers: Mapping[int, type[BaseModel] | str]
    body: type[BaseModel] | None = None
    body_bytes_max: int = 64 * 1024
    query: tuple[Query, ...] = ()
    problems: tuple[str, ...] = ()
    guarded: bool = True


class Table:
    """Routes by path, then method. Unknown paths and methods are problems, not pages."""

    def __init__(self, routes: list[Route]) -> None:
        self.routes = routes
        self._fixed: dict[str, dict[str, Route]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Route]]] = []
        for route in routes:
            self._methods(route.path)[route.method] = route

    def _methods(self, path: str) -> dict[str, Route]:
        if "{" not in path:
            return self._fixed.setdefault(path, {})
        pattern = re.compile(_PLACEHOLDER.sub(r"(?P<\1>[^/]+)", path))
        for known, methods in self._patterns:
            if known == pattern:
                return methods
        self._patterns.append((pattern, {}))
        return self._patterns[-1][1]

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route of a path as it was sent, and its parameters decoded (so `%2F` parts nothing), or a `Problem`."""
        methods = self._fixed.get(path)
        parameters: dict[str, str] = {}
        if methods is None:
            methods, parameters = self._match(path)
        route = methods.get(method)
        if route is None:
            allowed = ", ".join(sorted(methods))
            raise Problem("method-not-allowed", f"{method} is not among {allowed}.", allowed=allowed)
        return route, parameters

    def _match(self, path: str) -> tuple[dict[str, Route], dict[str, str]]:
        for pattern, methods in self._patterns:
            match = pattern.fullmatch(path)
            if match:
                return methods, {name: _decoded(name, value) for name, value in match.groupdict().items()}
        raise Problem("not-found", "No operation has this path; see /openapi.json.")


def _decoded(name: str, value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError as error:
        raise Problem("invalid-field", "The path does not decode to UTF-8.", field=f"path {name}") from error
