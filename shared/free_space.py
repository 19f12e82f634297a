"""When a store's file is to become smaller. Pure.

Pages that pruning frees are used again, so a store that loses as much as it gains gives nothing back.
"""

from typing import Final

_PAGES_MIN: Final = 1_000
"""8 MB: below it there is nothing to win."""


def pages_to_give_back(pages: int, free: int) -> int:
    """How many of `pages` to give back to the file system, when `free` of them hold nothing.

    None while those are less than a quarter; else all, save a tenth of what is in use for what comes next.
    """
    if free < _PAGES_MIN or free * 4 < pages:
        return 0
    return free - (pages - free) // 10
