"""How processes start where something stands already, and how they refuse: exit 78, and words that mend it."""

import os
import signal
import socket
import stat
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from shared.database import load_migrations, open_database
from shared.limits import UNIX_PATH_BYTES_MAX
from tests.support.deployment import Deployment, ServerProcess, health, until

CONFIGURATION = 78


@pytest.fixture
async def deployment(short_folder: Path) -> AsyncIterator[Deployment]:
    """A folder with everything in it, and nothing running."""
    async with Deployment(short_folder) as made:
        yield made


def start(deployment: Deployment, name: str, environment: Mapping[str, str] | None = None) -> ServerProcess:
    """One more adapter or sidecar of this configuration, with a log of its own."""
    module, *agent = ("adapter",) if name == "adapter" else ("sidecar", "--agent", name)
    arguments = [module, "--config", str(deployment.config_path), *agent]
    return ServerProcess(arguments, deployment.folder / f"{name}-again.log", environment or {})


async def refusal(deployment: Deployment, name: str, environment: Mapping[str, str] | None = None) -> str:
    """What a process says that must refuse to start: one line, no traceback, exit 78."""
    process = start(deployment, name, environment)
    assert await process.ended() == CONFIGURATION, process.log()
    lines = [line for line in process.log().splitlines() if " INFO " not in line]
    assert len(lines) == 1, process.log()
    process.log_path.unlink()
    return lines[0]


async def test_the_socket_of_a_killed_adapter_is_replaced(deployment: Deployment) -> None:
    """kill -9 leaves the file behind; the next adapter takes its place and serves, privately."""
    path = deployment.config.adapter_socket
    killed = await deployment.start_adapter()
    killed.kill9()
    assert stat.S_ISSOCK(path.lstat().st_mode)
    left = path.lstat().st_ino, path.lstat().st_ctime_ns
    started = await deployment.start_adapter()
    assert (path.lstat().st_ino, path.lstat().st_ctime_ns) != left
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert (await health(path))[1]["pid"] == started.pid
    assert await started.stop() == 0
    assert not path.exists()


@pytest.mark.parametrize("name", ["adapter", "pm"])
async def test_a_second_process_of_one_store_names_the_first_and_leaves_it_alone(
    deployment: Deployment, name: str
) -> None:
    """The holder's pid is in the refusal, also while the holder is stopped; it goes on serving at the same socket."""
    is_adapter = name == "adapter"
    first = await (deployment.start_adapter() if is_adapter else deployment.start_sidecar(name))
    path = deployment.config.adapter_socket if is_adapter else deployment.config.sidecar_socket(name)
    inode = path.lstat().st_ino
    assert f"process {first.pid};" in await refusal(deployment, name)
    first.send_signal(signal.SIGSTOP)
    assert f"process {first.pid};" in await refusal(deployment, name)
    first.send_signal(signal.SIGCONT)
    assert (await health(path))[1]["pid"] == first.pid
    assert path.lstat().st_ino == inode


async def test_a_live_socket_of_another_store_is_not_stolen(deployment: Deployment) -> None:
    """Another state folder and the same sockets: refused with the path, and the first goes on."""
    first = await deployment.start_adapter()
    path = deployment.config.adapter_socket
    elsewhere = {"MULTICLAW_PATHS__STATE": str(deployment.folder / "elsewhere")}
    said = await refusal(deployment, "adapter", elsewhere)
    assert str(path) in said
    assert "another process serves" in said
    assert (await health(path))[1]["pid"] == first.pid


@pytest.mark.parametrize("kind", ["file", "folder", "link", "fifo"])
async def test_what_is_no_socket_is_never_deleted(deployment: Deployment, kind: str) -> None:
    """A file, a folder, a symbolic link or a pipe at the adapter's path: refused, and left exactly as it is."""
    path = deployment.config.adapter_socket
    target = deployment.folder / "precious"
    target.write_text("precious")
    makers = {"file": lambda: path.write_text("precious"), "folder": path.mkdir, "fifo": lambda: os.mkfifo(path)}
    makers.get(kind, lambda: path.symlink_to(target))()
    before = path.lstat()
    assert str(path) in await refusal(deployment, "adapter")
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert target.read_text() == "precious"
    assert kind != "file" or path.read_text() == "precious"


@pytest.mark.parametrize(("name", "file"), [("adapter", "adapter.sock"), ("pm", "sidecar-pm.sock")])
async def test_a_path_the_kernel_would_cut_is_refused_with_its_length(
    deployment: Deployment, name: str, file: str
) -> None:
    """107 bytes serve; 108 are refused, in bytes and not in characters, before anything is made there."""
    room = UNIX_PATH_BYTES_MAX - len(os.fsencode(deployment.folder / "é" / file))
    for extra, fits in ((0, True), (1, False)):
        folder = deployment.folder / ("é" + "x" * (room + extra))
        path = folder / file
        assert len(os.fsencode(path)) == UNIX_PATH_BYTES_MAX + extra
        environment = {"MULTICLAW_PATHS__RUN": str(folder)}
        if not fits:
            said = await refusal(deployment, name, environment)
            assert f"{UNIX_PATH_BYTES_MAX + 1} bytes" in said
            assert str(UNIX_PATH_BYTES_MAX) in said
            assert not path.exists()
            continue
        process = start(deployment, name, environment)
        try:
            await _answers(process, path)
        finally:
            assert await process.stop() == 0


@pytest.mark.parametrize("name", ["adapter", "pm"])
async def test_without_its_key_a_process_names_the_command_that_makes_it(deployment: Deployment, name: str) -> None:
    """Signing is never silently off: a missing, an empty and an open key each refuse, and no secret is shown."""
    key = deployment.config.paths.keys / "pm.key"
    secret = key.read_text().split()[1]
    key.chmod(0o644)
    assert f"chmod 600 {key}" in await refusal(deployment, name)
    key.chmod(0o600)
    key.write_text("")
    assert f"multiclaw init --dir {deployment.folder}" in await refusal(deployment, name)
    key.write_text(secret)
    assert secret not in await refusal(deployment, name)
    key.unlink()
    assert f"multiclaw init --dir {deployment.folder}" in await refusal(deployment, name)
    assert not deployment.config.adapter_socket.exists()


async def test_a_configuration_that_is_not_there_or_has_unknown_words(deployment: Deployment) -> None:
    """Both name what mends them."""
    text = deployment.config_path.read_text()
    deployment.config_path.write_text(text.replace("[limits]", "[limits]\nlease_second = 3"))
    assert "Did you mean 'lease_seconds'?" in await refusal(deployment, "adapter")
    deployment.config_path.unlink()
    assert f"multiclaw init --dir {deployment.folder}" in await refusal(deployment, "pm")


async def test_a_port_that_is_taken_is_refused_by_name(deployment: Deployment) -> None:
    """The sidecar's loopback port belongs to somebody else: exit 78 with the port, and no socket is left behind."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert str(port) in await refusal(deployment, "pm", {"MULTICLAW_AGENTS__PM__PORT": str(port)})


async def _answers(process: ServerProcess, path: Path) -> None:
    async def asked() -> bool:
        assert process.returncode is None, process.log()
        return (await health(path))[0] == 200

    await until(asked, f"{path} answers")


@pytest.mark.parametrize("name", ["adapter", "pm"])
async def test_a_store_that_is_newer_than_the_program_is_refused(deployment: Deployment, name: str) -> None:
    """Exit 78 with both versions, and not a byte of the store is changed."""
    is_adapter = name == "adapter"
    first = await (deployment.start_adapter() if is_adapter else deployment.start_sidecar(name))
    assert await first.stop() == 0
    path = deployment.config.adapter_store if is_adapter else deployment.config.sidecar_store(name)
    migrations = load_migrations(f"{'adapter' if is_adapter else 'sidecar'}.store")
    database = await open_database(path, "", migrations=migrations)
    await database.run(lambda connection: connection.execute("PRAGMA user_version=99").fetchall())
    await database.settle()
    await database.close()
    before = path.read_bytes()
    assert f"of version 99, and this program knows {2 if is_adapter else 1}" in await refusal(deployment, name)
    assert path.read_bytes() == before
