"""Key files: private from birth, refused when they are not, and never shown."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.keys import (
    Key,
    KeyFault,
    KeyMissing,
    Keyring,
    create_key,
    create_private,
    find_keyring,
    key_path,
    load_keyring,
)

HEX = "ab" * 32


@pytest.fixture
def open_umask() -> Iterator[None]:
    """The widest umask, under which a careless `open` makes world-writable files."""
    before = os.umask(0)
    yield
    os.umask(before)


def write(folder: Path, text: str, mode: int = 0o600) -> None:
    """A key file of agent `pm`."""
    key_path(folder, "pm").write_text(text)
    key_path(folder, "pm").chmod(mode)


def fault(folder: Path) -> str:
    """What loading the key of `pm` complains of."""
    with pytest.raises(KeyFault) as caught:
        load_keyring(folder, "pm")
    return str(caught.value)


@pytest.mark.usefixtures("open_umask")
def test_keys_are_private_from_birth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has mode 0600 already before its first byte is written, under any umask."""
    modes: list[int] = []
    fdopen = os.fdopen

    def watched(descriptor: int, *args: object, **kwargs: object) -> object:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return fdopen(descriptor, *args, **kwargs)

    monkeypatch.setattr(os, "fdopen", watched)
    path = create_key(tmp_path, "pm")
    assert modes == [0o600]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_key_is_made_once_and_differs_from_others(tmp_path: Path) -> None:
    """Making a key again leaves the file as it is; two agents have different secrets and ids."""
    before = create_key(tmp_path, "pm").read_text()
    assert create_key(tmp_path, "pm").read_text() == before
    create_key(tmp_path, "qa")
    pm, qa = load_keyring(tmp_path, "pm").current, load_keyring(tmp_path, "qa").current
    assert pm.secret != qa.secret
    assert len(pm.secret) == 32
    assert pm.key_id.startswith("pm-")


def test_a_private_file_never_follows_a_link(tmp_path: Path) -> None:
    """A symbolic link in the place of the file is not written through."""
    victim = tmp_path / "victim"
    (tmp_path / "link").symlink_to(victim)
    assert create_private(tmp_path / "link", "secret") is False
    assert not victim.exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_keys_open_to_others_are_refused(tmp_path: Path, mode: int) -> None:
    """Any permission of group or others refuses the key, and the fault says how to close it."""
    write(tmp_path, f"pm-1 {HEX}\n", mode)
    text = fault(tmp_path)
    assert f"{mode:04o}" in text
    assert "chmod 600" in text


def test_a_missing_key_names_the_command(tmp_path: Path) -> None:
    """Without a key the fault says which command makes it: signing is never silently off."""
    text = fault(tmp_path / "keys")
    assert f"multiclaw init --dir {tmp_path}" in text
    write(tmp_path, "\n")
    assert "multiclaw init" in fault(tmp_path)


def test_the_first_folder_that_has_a_key_decides(tmp_path: Path) -> None:
    """The others are looked into only where it has none; what no folder has is missing from the first."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    with pytest.raises(KeyMissing, match=str(first)):
        find_keyring([first, second], "pm")
    write(second, f"pm-2 {HEX}\n")
    assert find_keyring([first, second], "pm").current.key_id == "pm-2"
    write(first, f"pm-1 {HEX}\n")
    assert find_keyring([first, second], "pm").current.key_id == "pm-1"
    key_path(first, "pm").chmod(0o644)
    with pytest.raises(KeyFault, match="chmod"):
        find_keyring([first, second], "pm")


@pytest.mark.parametrize(
    "line",
    [HEX, f"pm-1{HEX}", "pm-1 zz" + HEX[2:], "pm-1 abcd", f"pm-1  {HEX} x", "pm-1 é" + HEX, HEX + " ", f" {HEX}"],
)
def test_malformed_lines_are_refused_without_being_shown(tmp_path: Path, line: str) -> None:
    """A bad line is named by its number or position; nothing of it reaches the fault, which may be logged."""
    write(tmp_path, f"pm-2 {HEX}\n{line}\n")
    text = fault(tmp_path)
    assert HEX[2:] not in text
    assert "pm.key" in text


def test_older_lines_still_verify(tmp_path: Path) -> None:
    """The first line signs; later lines are found by their id; blank lines are nothing."""
    write(tmp_path, f"pm-2 {HEX}\n\npm-1 {'cd' * 32}\n")
    keyring = load_keyring(tmp_path, "pm")
    assert keyring.current.key_id == "pm-2"
    assert keyring.find("pm-1") == Key("pm-1", b"\xcd" * 32)
    assert keyring.find("pm-3") is None


def test_keys_have_no_secret_in_their_text() -> None:
    """Neither `repr`, `str` nor a format shows the secret, on its own or inside a keyring."""
    secret = b"S3CRET" * 6
    key = Key("pm-1", secret)
    shown = f"{key!r} {key} {Keyring('pm', (key,))!r} {[key]}"
    assert "S3CRET" not in shown
    assert key.secret == secret  # it is there, and only its text is withheld
