"""Which SQLite may be trusted with a log that is written and checkpointed at the same moment.

The WAL-reset fault: with two connections, one of which checkpoints while the other starts the log anew, a checkpoint
may skip committed frames, and what they held is lost. It is in every version from 3.7.0, the first with a log, to
3.51.2; mended in 3.51.3 and, in the older branches, in 3.50.7 and 3.44.6. 3.52.0 was withdrawn
(https://sqlite.org/changes.html, https://sqlite.org/wal.html). A distribution may have mended its copy without a new
number; nothing tells, so the number decides.
"""

from typing import Final, Literal, NamedTuple

Version = tuple[int, ...]

_MENDED: Final = (3, 51, 3)
_WITHDRAWN: Final = (3, 52, 0)
_MENDED_BRANCHES: Final[dict[Version, int]] = {(3, 44): 6, (3, 50): 7}
"""The first release of each older branch that has the mend."""


class Verdict(NamedTuple):
    """`unsafe` means: one connection only, for writes, reads and checkpoints."""

    word: Literal["safe", "unsafe"]
    reason: str

    @property
    def safe(self) -> bool:
        """Whether several connections may share a store."""
        return self.word == "safe"

    def __str__(self) -> str:
        """`safe`, or `unsafe: ` and why."""
        return self.word if self.safe else f"{self.word}: {self.reason}"


def verdict(version: str) -> Verdict:
    """Judge a library by what it calls itself, as `3.51.3`."""
    number = _parse(version)
    if number is None:
        return Verdict("unsafe", f"{version!r} is no version of SQLite that can be judged")
    if number == _WITHDRAWN:
        return Verdict("unsafe", "this release was withdrawn")
    if number >= _MENDED or number[2] >= _MENDED_BRANCHES.get(number[:2], number[2] + 1):
        return Verdict("safe", "it has the WAL-reset fault mended")
    return Verdict("unsafe", "it may have the WAL-reset fault (3.7.0 to 3.51.2): a checkpoint can lose commits")


def _parse(version: str) -> Version | None:
    """Three numbers; a fourth, as in `3.44.6.1`, is let go."""
    parts = version.split(".")
    if len(parts) < 3 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    return tuple(int(part) for part in parts[:3])
