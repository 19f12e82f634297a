"""A damaged store is served again with every message that was acknowledged, or it is refused: nothing in between."""

import asyncio
import random
import shutil
import subprocess
import sys

import pytest

from adapter.broker import Broker
from adapter.core.commands import Ack, Nack
from adapter.store import engine
from adapter.store.backups import back_up_stopped, newest_verified
from adapter.store.engine import Store
from adapter.store.full_check import check_everything
from adapter.store.ladder import Ladder
from adapter.store.replacing import KEPT
from shared.clock import Clock
from shared.database import QUIET_STORE, library_checksums, page_file
from shared.database.checksums import damaged_pages
from tests.support.census import take_census
from tests.support.clock import SettableClock
from tests.support.factories import claim, membership, noise, policy, send
from tests.support.mortal import copy_store
from tests.support.store_hand import reading

PAGE = 8192
MESSAGES = 90

pytestmark = [
    pytest.mark.skipif(library_checksums() != "on", reason=library_checksums()),
    pytest.mark.timeout(300),
]


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """A small log, which is copied often here, and pages that nobody is writing while they are read."""
    monkeypatch.setattr(engine, "BUSY_STORE", QUIET_STORE)
    monkeypatch.setattr(page_file, "_PAUSE_SECONDS", 0)


def new_store(path, clock=None):
    """A store over what is there, which repairs itself."""
    store = Store(path, membership(), policy(queue_max=1_000), clock or Clock())
    store.mending.ladder = Ladder(path, clock or Clock())
    return store


async def live(path, messages=MESSAGES, *, first=0):
    """Send so many, have some of them acked, some refused and some in an agent's hands."""
    store = new_store(path)
    await store.open()
    broker = Broker(store, Clock())
    for n in range(first, first + messages):
        await broker.ask(send(to="@qa" if n % 3 else "product", payload={"n": n, "text": noise(n, 1_200)}))
    for agent in ("qa", "pm"):
        handed = await broker.ask(claim(agent, 12))
        await broker.ask(Ack(agent, tuple(each.delivery_id for each in handed[:4]), {}))
        for each in handed[4:6]:
            await broker.ask(Nack(agent, each.delivery_id, "refuse", "no"))
    return store, broker


async def fill(path, messages=MESSAGES, *, first=0):
    """The same, closed in peace."""
    store, broker = await live(path, messages, first=first)
    await broker.close()
    await store.close()


async def killed(path, left):
    """The same, closed in peace, and in `left` as a crash would have left it."""
    store, broker = await live(path)
    copy_store(path, left)
    await broker.close()
    await store.close()


@pytest.fixture
async def filled(tmp_path):
    """The path of a store with messages in all states."""
    path = tmp_path / "store" / "store.db"
    path.parent.mkdir()
    await fill(path)
    return path


def harm(path, *offsets):
    """Flip a bit in each of these bytes."""
    content = bytearray(path.read_bytes())
    for offset in offsets:
        content[offset] ^= 0x80
    path.write_bytes(content)


def page_of(path, row):
    """Where the page with a row of a table begins, found by a text that stands in it alone."""
    at = path.read_bytes().index(row)
    return at // PAGE * PAGE


async def outcome(path, *, backup=None, clock=None):
    """Start a store, look at all of it, and let a repair come to its end: why it is not ready, or None; what was told
    of the repair; both when it is closed again."""
    store, told = new_store(path, clock), []
    store.mending.ladder.newest_backup = lambda: backup
    store.mending.ladder.on_end = told.append
    await store.start()
    while store.fault is None and store.integrity.figures().position.finished_at_us is None:
        await store.integrity.scan(1)
    await store.mending.ended()
    fault = store.fault
    await store.close()
    return fault, told


async def backed_up(path):
    """A verified backup of it as it is now."""
    folder = path.parent.parent / "backups"
    await asyncio.to_thread(back_up_stopped, path, folder, Clock().wall_us(), lambda *_: None)
    return newest_verified(folder)


async def repaired(path, **options):
    """It was repaired by itself, and nothing of it is lost; what was told."""
    before = take_census(path) if "before" not in options else options.pop("before")
    fault, told = await outcome(path, **options)
    assert fault is None
    assert list(before.faults_of(take_census(path))) == []
    (end,) = told
    assert end.kept.parent == path.parent / KEPT
    assert (await asyncio.to_thread(check_everything, path, lambda *_: None)).faults == []
    return end


async def test_a_plain_shell_that_brought_the_log_in(tmp_path):
    """It makes the checksums of all that it writes wrong, and the log is gone: all is there, and leases have ended."""
    path = tmp_path / "store.db"
    await killed(tmp_path / "work.db", path)
    before = take_census(tmp_path / "work.db")
    await asyncio.to_thread(_shell, path)
    assert not path.with_name("store.db-wal").exists()
    assert len(damaged_pages(path, 100)) > 5
    end = await repaired(path, before=before)
    assert end.details["lossless"]
    assert end.details["redelivered"] == 0


def _shell(path):
    """What `sqlite3 store.db 'select count(*) from messages'` does to a store that was killed, in a process of its
    own: its library must not meet ours."""
    code = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM proofs'); db.close()"
    subprocess.run([sys.executable, "-c", code, path], check=True, timeout=60)  # noqa: S603 - our own words


async def test_a_log_that_is_gone_is_refused(tmp_path):
    """Pages are right then, so nobody has brought it in: it says from where on commits are missing."""
    path = tmp_path / "store.db"
    await killed(tmp_path / "work.db", path)
    path.with_name("store.db-wal").unlink()
    before = path.read_bytes()
    fault, (end,) = await outcome(path)
    assert "its log is gone" in fault
    assert "multiclaw repair --accept-loss" in fault
    assert end.kept is None
    assert path.read_bytes() == before


def one_bit(content, page, rng):
    """As memory or a disk flips it."""
    content[page * PAGE + rng.randrange(PAGE)] ^= 1 << rng.randrange(8)


def two_bits(content, page, rng):
    """More than a checksum can set right."""
    for place in rng.sample(range(page * PAGE, (page + 1) * PAGE), 2):
        content[place] ^= 1 << rng.randrange(8)


def a_sector_of_zeros(content, page, rng):
    """A write that was torn."""
    start = page * PAGE + 512 * rng.randrange(PAGE // 512)
    content[start : start + 512] = bytes(512)


def another_page(content, page, rng):
    """A write that went astray: the checksum is right."""
    other = rng.randrange(1, len(content) // PAGE)
    content[page * PAGE : (page + 1) * PAGE] = content[other * PAGE : (other + 1) * PAGE]


@pytest.mark.parametrize("harm_page", [one_bit, two_bits, a_sector_of_zeros, another_page])
async def test_any_damage_of_a_page(filled, harm_page):
    """Wherever: served with everything, or refused with no byte changed. One bit, unless it is one of a word's highest,
    costs nothing; and pages of indexes never do."""
    rng, pristine = random.Random(7), filled.with_name("pristine.db")
    copy_store(filled, pristine)
    before, served = take_census(filled), 0
    pages = rng.sample(range(filled.stat().st_size // PAGE), 8)
    for page in pages:
        copy_store(pristine, filled)
        shutil.rmtree(filled.parent / KEPT, ignore_errors=True)
        content = bytearray(filled.read_bytes())
        harm_page(content, page, rng)
        filled.write_bytes(content)
        fault, told = await outcome(filled)
        if fault is None:
            served += 1
            assert list(before.faults_of(take_census(filled))) == [], page
        else:
            assert filled.read_bytes() == content
            assert not told[0].details or told[0].details["lost"] or told[0].details["doubts"]
    assert served >= (5 if harm_page is one_bit else 1)


def index_page(path):
    """A page of the index by sequence."""
    with reading(path) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'messages_by_sequence'").fetchone()
    return (root - 1) * PAGE


async def test_an_index_that_is_all_zeros(filled):
    """It is made anew, though zeros have the checksum of zeros."""
    start, content = index_page(filled), bytearray(filled.read_bytes())
    before = take_census(filled)
    content[start : start + PAGE] = bytes(PAGE)
    filled.write_bytes(content)
    end = await repaired(filled, before=before)
    assert end.details["wrong_pages"] == [start // PAGE + 1]


async def test_a_table_that_the_store_does_not_know_yet(filled):
    """One that the program has added since is empty, and no reason to call a human; all rows of others are there."""
    store = new_store(filled)
    await store.open()
    await store._writer.run(lambda db: db.execute("DROP TABLE announced").fetchall())
    rows = await store._writer.run(lambda db: db.execute("SELECT * FROM topologies").fetchall())
    await store.close()
    before = take_census(filled)
    content, start = bytearray(filled.read_bytes()), index_page(filled)
    content[start : start + PAGE] = b"\x01" * PAGE
    filled.write_bytes(content)
    await repaired(filled, before=before)
    with reading(filled) as db:
        assert db.execute("SELECT * FROM topologies").fetchall() == rows


async def test_a_message_that_only_the_backup_has(filled):
    """It comes from there; of a message since the backup it is said which is lost, and nothing is changed."""
    backup = await backed_up(filled)
    await fill(filled, 20, first=MESSAGES)
    before = take_census(filled)
    pristine = filled.with_name("pristine.db")
    copy_store(filled, pristine)
    start = page_of(filled, noise(30, 1_200).encode())
    harm(filled, *range(start + 200, start + PAGE - 200, 64))
    end = await repaired(filled, before=before, backup=backup)
    assert 1 <= end.details["from_backup"] <= 6
    copy_store(pristine, filled)
    shutil.rmtree(filled.parent / KEPT)
    start = page_of(filled, noise(MESSAGES + 10, 1_200).encode())
    harm(filled, *range(start + 200, start + PAGE - 200, 64))
    content = filled.read_bytes()
    fault, (end,) = await outcome(filled, backup=backup)
    assert "a repair would lose" in fault
    lost = {(each["channel"], n) for each in end.details["lost"] for n in range(each["from"], each["to"] + 1)}
    assert 1 <= len(lost) <= 6
    for place in lost:
        assert noise(MESSAGES + 10, 1_200).encode() in b"".join(before.messages[place] for place in lost), place
    assert filled.read_bytes() == content


async def test_a_small_table_that_only_the_backup_has(filled):
    """It may have changed since, as by a send that is scheduled: refused, and told as of which state it would be."""
    for turn in range(2):
        store = new_store(filled)
        await store.open()
        await store.apply([send(to="@qa", deliver_at_us=Clock().wall_us() + 3_600_000_000)])
        await store.close()
        if turn == 0:
            backup = await backed_up(filled)
    with reading(filled) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'scheduled'").fetchone()
    content = bytearray(filled.read_bytes())
    content[(root - 1) * PAGE : root * PAGE] = b"\x01" * PAGE
    filled.write_bytes(content)
    fault, (end,) = await outcome(filled, backup=backup)
    assert "a repair would lose the table scheduled: " in fault
    assert end.kept is None
    assert filled.read_bytes() == content


async def test_deliveries_that_cannot_be_read(filled):
    """They are handed over again, to just those who had got their messages; what is dead stays dead."""
    before = take_census(filled)
    with reading(filled) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'deliveries'").fetchone()
    start = (root - 1) * PAGE
    harm(filled, *range(start + 2, start + PAGE, 37))
    end = await repaired(filled, before=before)
    assert end.details["redelivered"] > 100
    assert "handed over again" in end.words


async def test_a_first_page_that_is_gone(filled):
    """Without it nothing can be found: refused, with a backup too, since what came after that is not known."""
    backup = await backed_up(filled)
    content = bytearray(filled.read_bytes())
    content[:PAGE] = bytes(PAGE)
    filled.write_bytes(content)
    for there in (None, backup):
        fault, (end,) = await outcome(filled, backup=there)
        assert fault.startswith("damaged: ")
        assert end.kept is None
        assert filled.read_bytes() == content


async def test_a_file_that_was_cut(filled):
    """At any page: served with everything, or refused; and as long as messages are missing, refused."""
    pristine, before = filled.with_name("pristine.db"), take_census(filled)
    copy_store(filled, pristine)
    pages = filled.stat().st_size // PAGE
    for left in {0, 1, 2, pages // 2, pages - 2, pages - 1}:
        copy_store(pristine, filled)
        with filled.open("r+b") as file:
            file.truncate(left * PAGE)
        fault, _ = await outcome(filled)
        assert fault is not None or list(before.faults_of(take_census(filled))) == []
        assert fault is not None or left == pages - 1


async def test_a_store_that_is_older_than_what_was_seen(filled):
    """It is perfect and lacks messages, and which, nobody can say: refused, by name of the last that it has."""
    older = filled.with_name("older.db")
    copy_store(filled, older)
    await fill(filled, 5, first=MESSAGES)
    shutil.copyfile(older, filled)
    fault, (end,) = await outcome(filled, backup=older)
    assert "was seen in it" in fault
    assert end.kept is None


async def test_while_it_runs(filled):
    """Damage that the scan finds is repaired, and the store goes on afterwards, with another file."""
    store, told = new_store(filled), []
    store.mending.ladder.on_end = told.append
    await store.open()
    broker = Broker(store, Clock())
    await broker.ask(send(payload={"n": "before"}))
    harm(filled, index_page(filled) + 4_000)
    while store.fault is None:
        await store.integrity.scan(1)
    await store.mending.ended()
    assert (store.fault, len(told)) == (None, 1)
    await broker.ask(send(payload={"n": "after"}))
    await broker.close()
    await store.close()
    assert (await asyncio.to_thread(check_everything, filled, lambda *_: None)).faults == []


async def test_not_twice_in_a_day(filled):
    """The second time it is refused, until a day has passed or a human has done it."""
    clock = SettableClock()
    for _ in range(2):
        harm(filled, index_page(filled) + 4_000)
        fault, (end,) = await outcome(filled, clock=clock)
        clock.advance(3_600)
    assert "repaired less than a day ago" in fault
    assert end.kept is None
    clock.advance(86_400)
    assert (await outcome(filled, clock=clock))[0] is None
