"""Page checksums: SQLite's checksum VFS, which writes eight bytes at the end of each page and verifies each that it
reads from a database file (https://sqlite.org/cksumvfs.html).

The extension comes with the `apsw` wheel and is loaded by its path: apsw itself, a second SQLite, is never imported.
What SQL cannot say is said through the library's own C functions, for every connection as it opens:

- extended result codes: without them a failed checksum is an I/O error like any other;
- eight reserved bytes for each page of a database that is made;
- no checkpoint at closing: a store that is damaged must be left as it is (`Database.settle` checkpoints).

Pages in the log have no such checksum. SQLite verifies its own, of each frame, when it reads the log after a crash.
"""

import ctypes
import functools
import importlib.util
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from shared.config import ConfigurationFault
from shared.database.damage import Damage
from shared.database.header import read_header
from shared.database.library import LIBRARY

APPLICATION_ID: Final = 0x4D634B31
"""`McK1`: stands in the header of a store that was made with checksums. The VFS goes by the number of reserved bytes
alone, so one flipped bit of that number would switch verification off without a word."""

RESERVED_BYTES: Final = 8

_PAGES_AT_ONCE: Final = 128
"""A mebibyte, which is verified in a millisecond or two."""

_RESERVE_BYTES: Final = 38  # SQLITE_FCNTL_RESERVE_BYTES
_NO_CKPT_ON_CLOSE: Final = 1006  # SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE
_EXTENSION: Final = Path("sqlite_extra_binaries", "cksumvfs.so")
_OpenHook: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

_loading = threading.Lock()
_kept: list[Any] = []  # the hook: SQLite calls it for as long as the process lives


def library_checksums() -> str:
    """`on`, with the VFS loaded for every database that this process opens from now on; or `off: ` and why."""
    with _loading:
        return _load()


@functools.cache
def _load() -> str:
    if LIBRARY.__name__ != "pysqlite3":
        return "off: there is no wheel of pysqlite3 for this platform"
    found = importlib.util.find_spec("apsw")
    if found is None or found.origin is None:
        return "off: the package apsw is not installed"
    connection = LIBRARY.connect(":memory:")
    try:
        connection.enable_load_extension(True)
        connection.load_extension(str(Path(found.origin).parent / _EXTENSION))
        _hook_openings()
    except (LIBRARY.Error, AttributeError, OSError) as error:
        return f"off: the checksum extension of apsw does not load: {error}"
    finally:
        connection.close()
    return "on"


def _hook_openings() -> None:
    library = ctypes.CDLL(LIBRARY._sqlite3.__file__)
    library.sqlite3_extended_result_codes.argtypes = (ctypes.c_void_p, ctypes.c_int)
    library.sqlite3_file_control.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p)
    library.sqlite3_db_config.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)

    def opened(handle: int, _: int, __: int) -> int:
        reserved = ctypes.c_int(RESERVED_BYTES)
        library.sqlite3_extended_result_codes(handle, 1)
        library.sqlite3_file_control(handle, b"main", _RESERVE_BYTES, ctypes.byref(reserved))
        library.sqlite3_db_config(handle, _NO_CKPT_ON_CLOSE, 1, None)
        return 0

    hook = _OpenHook(opened)
    library.sqlite3_auto_extension(hook)
    _kept.append(hook)


def damaged_pages(path: Path, pages_max: int = 10, pause: Callable[[], None] | None = None) -> list[int]:
    """Numbers of pages whose checksum is wrong, the first of them. For a store that this process has closed: reading
    it drops the locks of an open one. `pause` is called now and then, and may raise.
    """
    header = read_header(path)
    if header is None or library_checksums() != "on":
        return []
    wrong: list[int] = []
    connection = LIBRARY.connect(":memory:")
    try:
        with path.open("rb") as file:
            for number in itertools.count(1):
                page = file.read(header.page_bytes)
                if len(page) < header.page_bytes or len(wrong) == pages_max:
                    return wrong
                if connection.execute("SELECT verify_checksum(?)", (page,)).fetchone()[0] == 0:
                    wrong.append(number)
                if pause is not None and number % _PAGES_AT_ONCE == 0:
                    pause()
    finally:
        connection.close()
    return wrong


def judge_store(library: str, application_id: int, *, verifying: bool) -> str:
    """Whether a store that was there before has its pages verified: `on`, or `off: ` and why.

    Raises `ConfigurationFault` for one with checksums where the VFS is missing: it would read right, and each page
    written would be taken for damaged later.
    """
    if verifying:
        return "on"
    if application_id != APPLICATION_ID:
        return "off: the store was made without them" if library == "on" else library
    if library == "on":
        raise Damage("its header says that pages are not checked, and it was made with page checksums")
    raise ConfigurationFault(f"it was made with page checksums, and they are {library}; install what is missing")
