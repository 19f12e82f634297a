"""Names of agents and channels, and what `to` may hold."""

import re
from collections.abc import Iterable
from typing import Final

NAME: Final = re.compile(r"[a-z0-9-]{1,63}")
"""One DNS label's length and alphabet: safe in file names, unit names, headers and queries."""

NAME_PATTERN: Final = r"^[a-z0-9-]{1,63}$"
ADDRESS_PATTERN: Final = r"^@?[a-z0-9-]{1,63}$"

ADAPTER: Final = "adapter"
"""The adapter's own name: a member of `platform`, and the sender of `alert.*`."""

GOVERNOR: Final = "human-governor"
"""The Human Governor: a recipient of its own, with an inbox that humans read."""

RESERVED: Final = frozenset({ADAPTER, GOVERNOR})
"""Names no agent may take, because messages from them carry authority."""


def is_name(text: str) -> bool:
    """Whether `text` may name an agent or a channel. `fullmatch`, since `$` would let a newline pass."""
    return NAME.fullmatch(text) is not None


def direct_channel(agent: str) -> str:
    """The implicit channel whose only member is `agent`."""
    return "@" + agent


def hint(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the nearest known word, or nothing; goes to the end of a refusal."""
    import difflib  # noqa: PLC0415 - every process loads this module, and hardly one meets a wrong name

    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
