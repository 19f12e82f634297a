"""The exit statuses of every verb, in one place, and how a verb ends with one.

0    done; for `status`: everything is ready; for `doctor`: no fault;
     for `check` and `repair`: the store is whole
1    it failed, or was refused: the words on stderr say what and what to do next; for `status`: not all is ready;
     without words, when nobody reads the output any more (`| head`)
2    wrong use of the command line
69   what is needed does not answer (EX_UNAVAILABLE): start it, or try again
78   the configuration or a key is at fault (EX_CONFIG): a restart will not mend it
130  interrupted with Ctrl-C
"""

from typing import Final

FAILED: Final = 1
UNAVAILABLE: Final = 69
CONFIGURATION: Final = 78
INTERRUPTED: Final = 130


class Exit(Exception):  # noqa: N818 - it ends a verb, for whatever reason
    """Ends the verb with `status`, and `words` on stderr."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words
