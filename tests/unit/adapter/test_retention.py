"""What is too old, by channel and class, and what becomes of a batch."""

from adapter.core.retention import BATCH_BYTES, BATCH_ROWS, Ages, Lane, Retained, RetentionPolicy, scan, sweep

NOTES = Lane("product", contract=False)
CONTRACTS = Lane("product", contract=True)
POLICY = RetentionPolicy(
    Ages(100, None), {"platform": Ages(10, 1_000), "all-agents": Ages(None, None)}, check_us=1, agree_us=1
)


def row(number, at_us=0, *, contract=False, size=100, in_use=False, channel="product"):
    return Retained(number, channel, contract, number, at_us, size, in_use)


def test_each_channel_and_class_has_its_age():
    """Where nothing ever is too old, nothing is looked at."""
    assert POLICY.cutoff_us(NOTES, 500) == 400
    assert POLICY.cutoff_us(CONTRACTS, 500) is None
    assert POLICY.cutoff_us(Lane("platform", contract=False), 500) == 490
    assert POLICY.cutoff_us(Lane("platform", contract=True), 500) == -500
    lanes = POLICY.lanes(["product", "platform", "all-agents"])
    assert lanes == [NOTES, Lane("platform", contract=False), Lane("platform", contract=True)]


def test_a_batch_tells_the_newest_that_goes():
    """Before it and at it keys may be forgotten, and after it none is."""
    rows = [row(1, 5), row(2, 7, in_use=True), row(3, 6)]
    assert scan(NOTES, 100, 0, rows).newest_us == 6
    assert scan(NOTES, 100, 0, []).newest_us == 0


def test_a_scan_ends_at_the_first_that_is_too_young():
    """Received at the cut-off itself is too young."""
    batch = scan(NOTES, 3, 0, [row(1, 1), row(2, 2), row(3, 3), row(4, 1)])
    assert (batch.prune, batch.position, batch.more) == ([1, 2], 2, False)
    young = scan(CONTRACTS, 3, 0, [row(1, 3)])
    assert (young.position, young.more) == (0, False)


def test_a_scan_passes_what_is_of_the_other_class():
    """The floor goes beyond it: it is never looked at again by this lane."""
    rows = [row(1, contract=True), row(2), row(3, contract=True)]
    notes, contracts = scan(NOTES, 9, 0, rows), scan(CONTRACTS, 9, 0, rows)
    assert (notes.prune, notes.hold, notes.position) == ([2], [], 3)
    assert (contracts.prune, contracts.hold, contracts.position) == ([1, 3], [], 3)


def test_what_is_in_use_is_held():
    """It does not go, and the floor passes it."""
    batch = scan(NOTES, 9, 0, [row(1, in_use=True), row(2), row(3, contract=True, in_use=True)])
    assert (batch.prune, batch.hold, batch.position) == ([2], [1], 3)


def test_a_batch_is_bounded_by_rows_and_bytes():
    """There may be more behind a full one; one message goes however large it is."""
    full = scan(NOTES, 9, 0, [row(number) for number in range(1, BATCH_ROWS + 1)])
    assert (len(full.prune), full.more) == (BATCH_ROWS, True)
    large = scan(NOTES, 9, 0, [row(1, size=BATCH_BYTES + 1), row(2), row(3)])
    assert (large.prune, large.position, large.more) == ([1], 1, True)
    pair = scan(NOTES, 9, 0, [row(1, size=BATCH_BYTES // 2), row(2, size=BATCH_BYTES // 2), row(3)])
    assert (pair.prune, pair.position, pair.more) == ([1, 2], 2, True)


def test_a_scan_of_nothing_stays():
    """At its floor."""
    batch = scan(NOTES, 9, 7, [])
    assert (batch.position, batch.more, batch.prune) == (7, False, [])


def test_a_sweep_takes_what_was_released():
    """By the ages of each one's own channel and class, as they are now."""
    rows = [
        row(1, 0), row(2, 0, in_use=True), row(3, 450), row(4, 450, channel="platform"), row(5, 0, contract=True),
        row(6, 0, channel="all-agents"),
    ]  # fmt: skip
    batch = sweep(POLICY, 500, 0, rows)
    assert (batch.prune, batch.position, batch.more) == ([1, 4], 6, False)
    large = sweep(POLICY, 500, 0, [row(1), row(2, size=BATCH_BYTES), row(3)])
    assert (large.prune, large.position, large.more) == ([1], 1, True)
