"""The base of every wire model, and the one way to check a body against it."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.names import hint
from shared.problems import Problem
from shared.strict_json import pointer


class Model(BaseModel):
    """Strict types, no unknown fields, immutable: a body is exactly what its model says."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


M = TypeVar("M", bound=Model)

_ERRORS_MAX = 20
"""Faults told at once: a hostile body must not be answered with many times its size."""


def check(model: type[M], body: dict[str, Any], at: tuple[str | int, ...] = ()) -> M:
    """The model of `body`, or a `Problem` whose `field` is the first offender; its `errors` are twenty at most."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise _problem(error, model, at) from error


def _problem(error: ValidationError, model: type[Model], at: tuple[str | int, ...]) -> Problem:
    found = error.errors(include_url=False, include_context=False, include_input=False)[:_ERRORS_MAX]
    faults = [
        {"field": pointer((*at, *_place(fault["loc"]))), "detail": _sentence(fault["type"], fault["msg"])}
        for fault in found
    ]
    first = found[0]
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        detail = f"{name!r} is not a field here.{hint(name, model.model_fields)}"
        return Problem("unknown-field", detail, field=faults[0]["field"], errors=faults)
    return Problem(
        "invalid-field",
        f"{faults[0]['field'] or 'the body'}: {faults[0]['detail']}.",
        field=faults[0]["field"],
        errors=faults,
    )


def _place(where: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Where the fault is in the body: pydantic marks a bad key of a mapping by one more step, which no body has."""
    return where[:-1] if where[-1:] == ("[key]",) else where


def _sentence(kind: str, message: str) -> str:
    if kind == "missing":
        return "this field is required"
    return message.removeprefix("Value error, ")
