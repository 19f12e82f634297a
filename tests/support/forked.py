"""Processes of adapter and sidecar that are forked from one that has loaded their modules: a start without imports.

A campaign of kills starts a process for each; loading the modules would be most of what it does. What such a process
runs is `main()` of `python -m adapter` or `python -m sidecar`, and SIGKILL ends it like any other.
"""

import importlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.deployment import ServerProcess

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["adapter.app", "sidecar.app", "adapter.__main__", "sidecar.__main__"])


class ForkedProcess(ServerProcess):
    """Like `ServerProcess`, for the modules `adapter` and `sidecar`."""

    def __init__(self, arguments: list[str], log_path: Path, environment: Mapping[str, str]) -> None:
        self.log_path = log_path
        self._forked = _CONTEXT.Process(target=_main, args=(arguments, log_path, dict(environment)))
        self._forked.start()

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._forked.pid is not None
        return self._forked.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, or None while it runs."""
        return self._forked.exitcode

    def send_signal(self, signum: int) -> None:
        """Send a signal; one that ended already is left alone."""
        if self.returncode is None:
            os.kill(self.pid, signum)

    def wait(self, seconds_max: float | None = None) -> int:
        """The exit status, once it has ended; raises `subprocess.TimeoutExpired`."""
        self._forked.join(seconds_max)
        if self.returncode is None:
            assert seconds_max is not None
            raise subprocess.TimeoutExpired(self._forked.name, seconds_max)
        return self.returncode


def _main(arguments: list[str], log_path: Path, environment: dict[str, str]) -> None:
    module, *rest = arguments
    log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    os.environ.update(environment)
    sys.argv = [module, *rest]
    sys.exit(importlib.import_module(f"{module}.__main__").main())
