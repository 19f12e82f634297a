"""The `[escalation]` table of `multiclaw.toml`."""

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from shared.section import Section


def _check_webhook(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError("a webhook is an http:// or https:// URL")
    return url


class Escalation(Section):
    """When the Human Governor is told. Times are in seconds.

    The same alarm `repeats` times within the window is a pattern, of which the Governor is told once in a window. Dead
    letters are kept until somebody decides: from `dead_letters_max` open ones on, the Governor is told of their number.
    An agent that has not polled for `absence_seconds` while messages wait is reported to the orchestrators, and after
    `absence_governor_seconds` to the Governor. Of each message to the Governor the command is told, as JSON on its
    standard input, and the webhook, by a POST; each has `hook_seconds` for it, and is tried again until it succeeds.
    """

    repeats: Annotated[int, Field(ge=1, le=1_000)] = 10
    window_seconds: Annotated[float, Field(gt=0, le=30 * 86_400)] = 3_600.0
    dead_letters_max: Annotated[int, Field(ge=1)] = 10_000
    absence_seconds: Annotated[float, Field(ge=1, le=86_400)] = 120.0
    absence_governor_seconds: Annotated[float, Field(ge=1, le=30 * 86_400)] = 600.0
    command: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    webhook: Annotated[str, AfterValidator(_check_webhook)] | None = None
    hook_seconds: Annotated[float, Field(gt=0, le=300)] = 10.0

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.absence_governor_seconds < self.absence_seconds:
            raise ValueError("absence_governor_seconds must not be under absence_seconds")
        return self
