"""What the exchange relies on, of every store engine, where versions of the topology are concerned."""

import pytest

from adapter.core.commands import NewMessage
from adapter.core.membership import Standing, TopologyVersion
from tests.support.engines import RollbackError
from tests.support.factories import delivery, membership, send


def version(number, standing=Standing.SUPERSEDED, **fields):
    rest = ("file", "orchestrator", "w\u00f6rds", 2**53)
    return TopologyVersion(number, number - 1, membership(), ("agent ops joins",), *rest, standing=standing, **fields)


def test_a_version_of_the_topology_comes_back_as_it_was_saved(engine):
    """Every field, in its own transaction and in every later one; saving again replaces it."""
    first = version(1, decided_by="human-governor", decided_at_us=7, note="y\u00e9s", in_file=True)
    with engine.begin() as store:
        assert store.find_topology(1) is None
        store.save_topology(version(1, Standing.PROPOSED))
        assert store.find_topology(1) == version(1, Standing.PROPOSED)
        store.save_topology(first)
    with engine.begin() as store:
        assert store.find_topology(1) == first
        assert store.find_topology(2) is None


def test_a_snapshot_holds_the_versions_that_count(engine):
    """Open proposals, and what was in force since the file said it; its numbers go on behind all of them."""
    rows = [
        version(1, in_file=True),
        version(2),
        version(3, in_file=True),
        version(4, Standing.DENIED),
        version(5, Standing.STALE),
        version(6),
        version(7, Standing.CURRENT),
        version(8, Standing.PROPOSED),
        version(9, Standing.DENIED),
    ]
    with engine.begin() as store:
        for row in reversed(rows):
            store.save_topology(row)
    snapshot = engine.snapshot()
    assert [each.version for each in snapshot.topologies] == [3, 6, 7, 8]
    assert [each.version for each in snapshot.applied] == [3, 6, 7]
    assert snapshot.last_topology == 9


def test_a_snapshot_without_versions_has_nobody_in_force(engine):
    """The first start."""
    snapshot = engine.snapshot()
    assert (snapshot.topologies, snapshot.last_topology, snapshot.applied[-1].version) == ([], 0, 0)


def test_new_names_can_be_used_in_the_transaction_that_enrols_them(engine):
    """Agents and channels alike; a channel that is enrolled again keeps its sequence."""
    with engine.begin() as store:
        store.enrol(["ops"], ["incidents"])
        store.add_message(NewMessage(1, 1, 1_000, send("ops", to="incidents"), b"{}"))
        store.save_deliveries([delivery(1, "ops")])
        store.save_sequences({"incidents": 1}, 1)
        assert store.find_delivery(1, "ops") is not None
        store.enrol(["ops"], ["incidents"])
    snapshot = engine.snapshot()
    assert snapshot.sequences["incidents"] == 1
    assert [d.recipient for d in snapshot.live] == ["ops"]


def enrol_and_fail(engine):
    with engine.begin() as store:
        store.enrol(["ops"], ["incidents"])
        store.save_topology(version(1, Standing.CURRENT))
        raise RollbackError


def test_no_version_of_a_failed_transaction_remains(engine):
    """Neither it nor its names."""
    with pytest.raises(RollbackError):
        enrol_and_fail(engine)
    snapshot = engine.snapshot()
    assert (snapshot.topologies, snapshot.last_topology) == ([], 0)
    assert "incidents" not in snapshot.sequences
