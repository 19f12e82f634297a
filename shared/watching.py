"""The `[watch]` table of `multiclaw.toml`."""

from typing import Annotated

from pydantic import Field

from shared.section import Section


class Watching(Section):
    """Who is told of the alarms that `multiclaw watch` finds in the journal.

    The orchestrators are, unless `agents` is false, each by a message through its own sidecar. The `command` gets each
    alarm as JSON on its standard input and has `hook_seconds` for it. What fails is tried again, for `give_up_hours` at
    most; then an entry in the journal says so.
    """

    agents: bool = True
    command: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    hook_seconds: Annotated[float, Field(gt=0, le=300)] = 10.0
    give_up_hours: Annotated[float, Field(gt=0, le=24 * 30)] = 24.0
