"""Signing keys: one file per agent, mode 0600, which `multiclaw init` makes and agents never read.

A file holds one key per line, `KEY_ID HEX`, the newest first; older lines still verify, so that keys can rotate.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from shared.digests import Hmac

_SECRET_BYTES: Final = 32  # the output size of SHA-256 (RFC 2104, section 3)
_SUFFIX: Final = ".key"


class KeyFault(Exception):  # noqa: N818 - `KeyError` is taken
    """A key is missing or unsafe. The text names the command that mends it."""


class KeyMissing(KeyFault):
    """There is no such key file."""


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """A named secret. It has no `repr`, so that it cannot reach a log."""

    key_id: str
    secret: bytes
    mac: Hmac = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mac", Hmac(self.secret))


@dataclass(frozen=True, slots=True, repr=False)
class Keyring:
    """The keys of one agent: the first signs, all verify."""

    agent: str
    keys: tuple[Key, ...]

    @property
    def current(self) -> Key:
        """The key that signs."""
        return self.keys[0]

    def find(self, key_id: str) -> Key | None:
        """The key of that id, if this agent has it."""
        for key in self.keys:  # one or two, looked at with every request: no generator
            if key.key_id == key_id:
                return key
        return None


def key_path(folder: Path, agent: str) -> Path:
    """Where the keys of `agent` stand."""
    return folder / (agent + _SUFFIX)


def create_key(folder: Path, agent: str) -> Path:
    """Make the first key of `agent`; an existing file is left as it is."""
    path = key_path(folder, agent)
    line = f"{agent}-{secrets.token_hex(4)} {secrets.token_hex(_SECRET_BYTES)}\n"
    create_private(path, line)
    return path


def create_private(path: Path, text: str) -> bool:
    """Create a file that only its owner can read, from birth; false if one stood there already."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return True


def load_keyring(folder: Path, agent: str) -> Keyring:
    """The keys of `agent`; raises `KeyMissing`, or `KeyFault` where they are readable by others, or unreadable."""
    path = key_path(folder, agent)
    try:
        mode = path.stat().st_mode
        lines = path.read_text(encoding="ascii").splitlines()
    except FileNotFoundError as error:
        raise KeyMissing(
            f"no key for agent {agent!r} at {path}; make it with: multiclaw init --dir {folder.parent}"
        ) from error
    except PermissionError as error:
        raise KeyFault(
            f"the key at {path} is closed to user {os.geteuid()}: do this as its owner, or as root"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFault(f"the key at {path} cannot be read: {error}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise KeyFault(
            f"the key at {path} is open to others (mode {stat.S_IMODE(mode):04o}); close it: chmod 600 {path}"
        )
    keys = tuple(_parse(line, number, path) for number, line in enumerate(lines, 1) if line.strip())
    if not keys:
        raise KeyFault(f"the key file {path} is empty; remove it and run: multiclaw init --dir {folder.parent}")
    return Keyring(agent, keys)


def find_keyring(folders: Sequence[Path], agent: str) -> Keyring:
    """The keys of `agent` from the first folder that has any; raises as `load_keyring` does, of the first."""
    for folder in folders:
        with contextlib.suppress(KeyMissing):
            return load_keyring(folder, agent)
    return load_keyring(folders[0], agent)


def _parse(line: str, number: int, path: Path) -> Key:
    """The key of one line. Faults quote nothing of it: in a line that lacks its id, the first word is the secret."""
    key_id, _, secret = line.strip().partition(" ")
    try:
        key = Key(key_id, bytes.fromhex(secret))
    except ValueError as error:
        raise KeyFault(f"line {number} of {path} is not 'KEY_ID HEX'") from error
    if len(key.secret) < _SECRET_BYTES:
        raise KeyFault(f"line {number} of {path} is not 'KEY_ID HEX' with at least {_SECRET_BYTES} bytes of key")
    return key
