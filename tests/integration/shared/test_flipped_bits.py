"""One flipped bit anywhere in a store: what is read is right, or the store is refused (`nats-server#7549`)."""

import contextlib
import random
import sqlite3
from hashlib import sha256
from importlib import resources

import pytest

from adapter.broker import Broker
from adapter.store import engine
from adapter.store.engine import Store
from adapter.store.queries import MIGRATIONS, SCHEMA
from shared.clock import Clock
from shared.database import Tuning, is_damage, library_checksums, open_database, transaction
from shared.database.checksums import RESERVED_BYTES, damaged_pages
from shared.database.header import read_header
from tests.support.factories import claim, membership, noise, policy, send
from tests.support.mortal import copy_store

PAGE = 8192
FRAME = PAGE + 24
LOG_HEADER = 32
MESSAGES = 300
SMALL_LOG = Tuning(wal_bytes=64 * FRAME, cache_bytes=1024 * 1024)
LARGE_LOG = Tuning(wal_bytes=800 * FRAME, cache_bytes=1024 * 1024)
SIDECAR_SCHEMA = resources.files("sidecar.store").joinpath("schema.sql").read_text(encoding="utf-8")

pytestmark = [
    pytest.mark.skipif(library_checksums() != "on", reason=library_checksums()),
    pytest.mark.timeout(300),
]


async def fill_adapter(path):
    """A store with sends to one and to all, some of them leased."""
    store = Store(path, membership(), policy(queue_max=1_000), Clock())
    await store.open()
    broker = Broker(store, Clock())
    for n in range(MESSAGES):
        await broker.ask(send(to="@qa" if n % 3 else "product", payload={"n": n, "text": noise(n, 800)}))
    await broker.ask(claim("qa", 10))
    await broker.close()
    return store


async def fill_sidecar(path, messages=MESSAGES):
    """An outbox that waits, of bodies on one page and over several."""
    database = await open_database(path, SIDECAR_SCHEMA, LARGE_LOG)

    def insert(connection, n):
        with transaction(connection):
            row = (f"key-{n}", b"digest", f"{n:05}".encode() * (100 if n % 10 else 4_000), n)
            connection.execute(
                "INSERT INTO outbox (idempotency_key, content_sha256, envelope, queued_at_us) VALUES (?, ?, ?, ?)", row
            )

    for n in range(messages):
        await database.run(lambda connection, n=n: insert(connection, n))
    return database


def everything(connection):
    """A digest of every row of every table."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    content = sha256()
    for table in sorted(tables):
        for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - the schema's own names
            content.update(repr(row).encode())
    return content.hexdigest()


async def look(path, schema, *, verify=True):
    """What a start-up and a full read give: the digest, or `refused`. Raises what proves nothing."""
    try:
        migrations = MIGRATIONS if schema == SCHEMA else ()
        database = await open_database(path, schema, SMALL_LOG, migrations)
    except Exception as error:
        if not is_damage(error):
            raise
        return "refused"
    try:
        if not verify:
            await database.run(lambda connection: connection.execute("PRAGMA checksum_verification=OFF").fetchall())
        return await database.run(everything)
    except Exception as error:
        if not is_damage(error):
            raise
        return "refused"
    finally:
        await database.close()


def flip(path, offset, bit):
    """One bit of the file."""
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ (1 << bit)]))


@pytest.fixture(params=["adapter", "sidecar"])
async def settled(request, tmp_path, monkeypatch):
    """A store that was closed in peace, and its schema."""
    monkeypatch.setattr(engine, "BUSY_STORE", SMALL_LOG)
    path = tmp_path / "store.db"
    if request.param == "adapter":
        await (await fill_adapter(path)).close()
        return path, SCHEMA
    database = await fill_sidecar(path)
    await database.settle()
    await database.close()
    return path, SIDECAR_SCHEMA


async def sweep(path, schema, offsets, *, verify=True):
    """How often each outcome came up, `right` among them."""
    rng, target = random.Random(7), path.with_name("flipped.db")
    copy_store(path, target)
    right = await look(target, schema)
    outcomes = []
    for offset in offsets:
        copy_store(path, target)
        target.with_name("flipped.db-shm").unlink(missing_ok=True)
        flip(target, offset, rng.randrange(8))
        seen = await look(target, schema, verify=verify)
        outcomes.append("right" if seen == right else seen if seen == "refused" else "wrong")
    return {outcome: outcomes.count(outcome) for outcome in ("right", "refused", "wrong")}


def one_in_each_page(path):
    """A place in each page, and each byte of the header."""
    rng = random.Random(3)
    return [*range(100), *(start + rng.randrange(PAGE) for start in range(0, path.stat().st_size, PAGE))]


async def test_a_flipped_bit_of_a_page_is_never_served(settled):
    """In every page and every byte of the header: never anything but what was stored."""
    path, schema = settled
    header = read_header(path)
    assert (header.page_bytes, header.reserved_bytes) == (PAGE, RESERVED_BYTES)
    seen = await sweep(path, schema, one_in_each_page(path))
    assert seen["wrong"] == 0
    assert seen["refused"] > path.stat().st_size / PAGE


async def test_without_verification_the_sweep_finds_garbage(settled):
    """The sweep bites: the same flips, unverified, are served."""
    path, schema = settled
    seen = await sweep(path, schema, one_in_each_page(path)[100:], verify=False)
    assert seen["wrong"] > 10


@pytest.fixture
async def killed(tmp_path):
    """A sidecar's store as `kill -9` leaves it: almost all of it stands in the log."""
    path = tmp_path / "killed.db"
    database = await fill_sidecar(tmp_path / "store.db", MESSAGES // 3)
    copy_store(tmp_path / "store.db", path)
    await database.close()
    return path


def frames_of(path):
    """How many frames of the log were committed, by the salts that they carry."""
    log = path.with_name(path.name + "-wal").read_bytes()
    starts = range(LOG_HEADER, len(log) - FRAME + 1, FRAME)
    return sum(log[start + 8 : start + 16] == log[16:24] for start in starts)


async def log_sweep(path, harm, count):
    """Outcomes of harming the log in `count` ways."""
    target = path.with_name("harmed.db")
    log, shm = (target.with_name(target.name + suffix) for suffix in ("-wal", "-shm"))
    copy_store(path, target)
    right = await look(target, SIDECAR_SCHEMA)
    outcomes = []
    for n in range(count):
        copy_store(path, target)
        shm.unlink(missing_ok=True)
        harm(log, n)
        seen = await look(target, SIDECAR_SCHEMA)
        outcomes.append("right" if seen == right else seen if seen == "refused" else "wrong")
    return outcomes


async def test_a_flipped_bit_of_the_log_loses_no_commit_in_silence(killed):
    """In every frame and every byte of the log's header: each commit is there, or the store is refused."""
    rng, frames = random.Random(5), frames_of(killed)

    def harm(log, n):
        frame = n - LOG_HEADER
        place = n if frame < 0 else LOG_HEADER + frame * FRAME + rng.randrange(FRAME)
        flip(log, place, rng.randrange(8))

    assert frames > MESSAGES // 3
    assert set(await log_sweep(killed, harm, LOG_HEADER + frames)) == {"refused"}


async def test_a_log_that_was_cut_or_is_gone_is_refused(killed):
    """At the start of every eighth frame, down to nothing."""
    frames = frames_of(killed)

    def harm(log, n):
        with log.open("r+b") as file:
            file.truncate(0 if n == 0 else LOG_HEADER + (n - 1) * 8 * FRAME)

    assert set(await log_sweep(killed, harm, frames // 8)) == {"refused"}


async def test_without_its_mark_a_log_loses_commits_in_silence(killed):
    """The sweep of the log bites: it is the mark that notices."""
    killed.with_name(killed.name + "-mark").unlink()
    middle = frames_of(killed) // 2
    outcomes = await log_sweep(killed, lambda log, n: flip(log, LOG_HEADER + (middle + n) * FRAME + 100, 1), 5)
    assert outcomes == ["wrong"] * 5


async def test_what_follows_the_log_is_free(killed):
    """Bits after the last commit mean nothing, and the store opens."""
    end = LOG_HEADER + frames_of(killed) * FRAME
    assert set(await log_sweep(killed, lambda log, n: flip(log, end + n * 501, 1), 5)) == {"right"}


async def test_a_damaged_store_is_not_ready_and_stays_as_it_is(tmp_path, monkeypatch):
    """The reason names file and page, nothing is opened again, and no byte of the files changes."""
    monkeypatch.setattr(engine, "BUSY_STORE", SMALL_LOG)
    path = tmp_path / "store.db"
    await (await fill_adapter(path)).close()
    page = path.stat().st_size // PAGE // 2
    flip(path, (page - 1) * PAGE + 4_000, 2)
    before = path.read_bytes()
    assert damaged_pages(path) == [page]
    store = Store(path, membership(), policy(), Clock())
    opened = []
    store.on_open = lambda: opened.append(True)
    await store.start()
    if store.fault is None:  # the page is none of those that a start reads
        with pytest.raises(Exception, match="store-unavailable"):
            await store.read(lambda connection, _: everything(connection))
    await store.mending.ended()
    assert store.fault.startswith(f"damaged: {path}: ")
    assert f"wrong pages: {page};" in store.fault
    times = len(opened)
    with pytest.raises(Exception, match="kept for a repair"):
        await store.read(lambda connection, _: everything(connection))
    await store.close()
    assert len(opened) == times
    assert path.read_bytes() == before


async def test_a_store_of_before_is_opened_without(tmp_path):
    """One that has no room for checksums works on, and says so."""
    path = tmp_path / "store.db"
    with contextlib.closing(sqlite3.connect(path)) as other:  # the standard library's knows nothing of checksums
        other.execute("CREATE TABLE t (n)")
    for _ in range(2):
        database = await open_database(path, SIDECAR_SCHEMA)
        assert database.page_checksums == "off: the store was made without them"
        assert read_header(path).reserved_bytes == 0
        await database.settle()
        await database.close()
