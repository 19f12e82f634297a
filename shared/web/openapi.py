"""OpenAPI 3.1 from the route table and the very models that check bodies."""

from collections.abc import Iterable
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from shared.api import ProblemDocument
from shared.problems import CONTENT_TYPE, KINDS
from shared.web.routes import BEARER, Route, Security

_ALWAYS: Final = ("malformed-request", "internal")
_GUARDED: Final = ("unauthenticated",)
_WITH_BODY: Final = (
    "malformed-json", "message-too-large", "unsupported-media-type",
    "invalid-field", "unknown-field", "invalid-number", "invalid-text",
)  # fmt: skip
_SCHEME: Final = "caller"
_REF: Final = "#/components/schemas/{model}"


def problems_of(route: Route) -> list[str]:
    """Every kind of problem that `route` may answer: its own, and those that its shape implies."""
    kinds = [*_ALWAYS, *route.problems]
    kinds += _GUARDED if route.guarded else ()
    kinds += _WITH_BODY if route.body else ()
    kinds += ("invalid-field",) if route.query or "{" in route.path else ()
    return sorted(set(kinds))


def document(title: str, routes: Iterable[Route], security: Security = BEARER) -> dict[str, Any]:
    """The document of one surface."""
    routes = list(routes)
    models = _models(routes)
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=_REF, by_alias=True)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1"},
        "paths": paths,
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {_SCHEME: dict(security.definition)},
        },
    }


def _models(routes: list[Route]) -> list[type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {ProblemDocument.__name__: ProblemDocument}
    for route in routes:
        for model in (route.body, *route.answers.values()):
            if model is not None and not isinstance(model, str):
                found[model.__name__] = model
    return list(found.values())


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "responses": {str(code): _response(model) for code, model in route.answers.items()} | _refusals(route),
        "security": [{_SCHEME: []}] if route.guarded else [],
    }
    parameters = [_path_parameter(part) for part in route.path.split("/") if part.startswith("{")]
    parameters += [
        {
            "name": q.name,
            "in": "query",
            "required": q.required,
            "schema": q.schema,
            "description": q.description,
        }
        for q in route.query
    ]
    if parameters:
        operation["parameters"] = parameters
    if route.body:
        content = {"application/json": {"schema": _reference(route.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path_parameter(part: str) -> dict[str, Any]:
    return {"name": part.strip("{}"), "in": "path", "required": True, "schema": {"type": "string"}}


def _response(model: type[BaseModel] | str) -> dict[str, Any]:
    if isinstance(model, str):
        return {"description": "OK", "content": {model: {}}}
    lines = (model.__doc__ or "OK").strip().splitlines()
    return {"description": lines[0], "content": {"application/json": {"schema": _reference(model)}}}


def _refusals(route: Route) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for kind in problems_of(route):
        by_status.setdefault(KINDS[kind].status, []).append(kind)
    return {
        str(status): {
            "description": "; ".join(f"`{kind}`: {KINDS[kind].title}" for kind in kinds),
            "content": {
                CONTENT_TYPE: {
                    "schema": {
                        "allOf": [
                            _reference(ProblemDocument),
                            {"properties": {"type": {"enum": kinds}}},
                        ]
                    }
                }
            },
        }
        for status, kinds in sorted(by_status.items())
    }


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}
