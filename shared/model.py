"""The base of every wire model, and the one way to check a body against it."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.names import hint
from shared.problems import Problem
from shared.strict_json import pointer


class Model(BaseModel):
    """Strict types, no unknown fields, immutable: a body is exactly what its model says."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


M = TypeVar("M", bound=Model)


def check(model: type[M], body: dict[str, Any], at: tuple[str | int, ...] = ()) -> M:
    """The model of `body`, or a `Problem` whose `field` is the first offender and whose `errors` are all."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise _problem(error, model, at) from error


def _problem(error: ValidationError, model: type[Model], at: tuple[str | int, ...]) -> Problem:
    faults = [
        {"field": pointer((*at, *fault["loc"])), "detail": _sentence(fault["type"], fault["msg"])}
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
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


def _sentence(kind: str, message: str) -> str:
    if kind == "missing":
        return "this field is required"
    return message.removeprefix("Value error, ")
