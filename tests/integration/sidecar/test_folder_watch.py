"""A folder that is watched wakes whoever waits; one that cannot be is looked at."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.folder_watch import FolderWatch


@contextlib.contextmanager
def _watching(folder: Path) -> Iterator[FolderWatch]:
    watch = FolderWatch(folder)
    end = time.monotonic() + 20
    watch.open()
    while folder.is_dir() and watch._descriptor is None and time.monotonic() < end:
        time.sleep(0.1)  # a user has only so many watches, and who runs beside this test may have them all
        watch.open()
    try:
        yield watch
    finally:
        watch.close()


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count is wanted, of what changes


async def _wakes(watch: FolderWatch, seconds_max: float) -> float:
    """How long a wait took."""
    began = time.monotonic()
    await watch.wait(seconds_max)
    return time.monotonic() - began


async def test_a_name_that_comes_or_goes_ends_a_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made, moved there, removed: each at once; nothing else does, and each is heard once."""
    monkeypatch.setattr("sidecar.folder_watch.LOOK_SECONDS", 60)
    monkeypatch.setattr("sidecar.folder_watch.SURE_SECONDS", 60)
    path, elsewhere = tmp_path / "adapter.sock", tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.touch()
    with _watching(tmp_path) as watch:
        for act in (path.touch, path.unlink, lambda: elsewhere.rename(path)):
            asyncio.get_running_loop().call_later(0.01, act)
            assert await _wakes(watch, 30) < 20
            assert await _wakes(watch, 0.05) >= 0.05
        path.write_bytes(b"x")
        assert await _wakes(watch, 0.05) >= 0.05


async def test_what_came_before_the_wait_is_heard(tmp_path: Path) -> None:
    """From the opening on nothing is missed."""
    with _watching(tmp_path) as watch:
        (tmp_path / "adapter.sock").touch()
        assert await _wakes(watch, 4) < 3


@pytest.mark.parametrize("folder", ["missing", "file/below"])
async def test_without_a_watch_a_wait_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """Short enough to look; the descriptor of the watch that failed is not left open."""
    monkeypatch.setattr("sidecar.folder_watch.LOOK_SECONDS", 0.02)
    (tmp_path / "file").touch()
    before = _open_files()
    with _watching(tmp_path / folder) as watch:
        assert await _wakes(watch, 30) < 20
        assert _open_files() == before


async def test_a_watched_wait_has_an_end_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder may have been replaced by another of its name; the descriptor goes with the closing."""
    monkeypatch.setattr("sidecar.folder_watch.SURE_SECONDS", 0.02)
    before = _open_files()
    with _watching(tmp_path) as watch:
        assert await _wakes(watch, 30) < 20
        assert _open_files() == before + 1
    assert _open_files() == before
