"""Emergencies: one entry, whole, and a true word about where it went."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from shared.api import EmergencyRequest
from sidecar.emergency import MESSAGE_ID, Emergency

_REQUEST = EmergencyRequest(kind="adapter-down", summary="a\nPRIORITY=7\nMESSAGE=fake", details={"n": [1, "\n"]})


@pytest.fixture
def journal(short_folder: Path):
    """A datagram socket where the journal's would be."""
    path = short_folder / "journal"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        yield path


async def test_the_entry_is_structured(journal: Path) -> None:
    """Priority 2, a fixed message id, and fields whose newlines stay inside them."""
    sent: list[dict[str, Any]] = []

    def send(**fields: Any) -> int:
        sent.append(fields)
        return 0

    assert await Emergency("pm", journal, send).record(_REQUEST) == "journald"
    (fields,) = sent
    assert (fields["PRIORITY"], fields["MESSAGE_ID"]) == (2, MESSAGE_ID)
    assert (fields["MULTICLAW_AGENT"], fields["MULTICLAW_KIND"]) == ("pm", "adapter-down")
    assert fields["MULTICLAW_DETAILS"] == '{"n":[1,"\\n"]}'
    assert fields["MESSAGE"] == _REQUEST.summary


@pytest.mark.parametrize("result", [-5, OSError("no")])
async def test_a_failing_journal_is_not_claimed(
    journal: Path, result: int | OSError, capfd: pytest.CaptureFixture[str]
) -> None:
    """An error of the journal, returned or raised, leads to standard error, and the answer says so."""

    def send(**_: Any) -> int:
        if isinstance(result, OSError):
            raise result
        return result

    assert await Emergency("pm", journal, send).record(_REQUEST) == "stderr"
    assert capfd.readouterr().err.count("<2>multiclaw-emergency") == 1


@pytest.mark.parametrize("kind", ["absent", "file"])
async def test_without_a_journal(short_folder: Path, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    """`journal.send` reports success where there is no journal; that is never taken for one."""
    path = short_folder / "journal"
    if kind == "file":
        path.touch()
    assert await Emergency("pm", path, lambda **_: 0).record(_REQUEST) == "stderr"
    assert "<2>" in capfd.readouterr().err


async def test_a_hanging_journal_does_not_hold_us_up(
    journal: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A journal that takes an entry and never returns is given up on."""
    monkeypatch.setattr("sidecar.emergency._WRITE_SECONDS", 0.05)
    release = threading.Event()

    def send(**_: Any) -> int:
        release.wait(10)
        return 0

    assert await Emergency("pm", journal, send).record(_REQUEST) == "stderr"
    release.set()
    assert "<2>" in capfd.readouterr().err
