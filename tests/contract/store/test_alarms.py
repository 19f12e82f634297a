"""What every store engine keeps of alarms, of what humans were told, and of when agents were seen."""

import pytest

from adapter.core.alarms import Alarm, AlarmKind
from adapter.core.dead_letters import Cycle, DeadLetter, closed
from adapter.core.tallies import Tally
from tests.support.engines import RollbackError

LETTER = DeadLetter(1, "qa", 1, (Cycle("refused", None, 1, 0, 5),))
DIED = Alarm(AlarmKind.DEAD_LETTER, "qa", "refused")
FULL_QUEUE = Alarm(AlarmKind.QUEUE_FULL, "somebody who is gone", "")
TALLY = Tally(3, 10, 2**40, 5, [-1, 7, 2**60], 9)


def bury_and_fail(engine):
    with engine.begin() as store:
        store.save_dead_letters([LETTER])
        store.save_tallies({DIED: TALLY})
        raise RollbackError


def test_no_dead_letter_of_a_failed_transaction_remains(engine):
    """Neither the record nor what was to be alerted."""
    with pytest.raises(RollbackError):
        bury_and_fail(engine)
    with engine.begin() as store:
        assert store.find_dead_letter(1, "qa") is None
    assert engine.snapshot().tallies == {}


def test_a_snapshot_holds_the_tallies(engine):
    """The newest of each alarm, as it was saved and not as it became; those that were forgotten are gone."""
    changing = Tally(1, 1, 1, 1, [1])
    with engine.begin() as store:
        store.save_tallies({DIED: changing, FULL_QUEUE: changing})
    changing.recent.append(2)
    assert engine.snapshot().tallies[DIED].recent == [1]
    with engine.begin() as store:
        store.save_tallies({DIED: TALLY, FULL_QUEUE: None})
    assert engine.snapshot().tallies == {DIED: TALLY}
    engine.snapshot().tallies[DIED].recent.clear()
    assert engine.snapshot().tallies == {DIED: TALLY}


def test_a_snapshot_counts_open_dead_letters(engine):
    """Those that somebody must decide on, and no others."""
    assert engine.snapshot().open_dead_letters == 0
    with engine.begin() as store:
        store.save_dead_letters([LETTER, DeadLetter(2, "qa", 1, LETTER.history[:1])])
    assert engine.snapshot().open_dead_letters == 2
    with engine.begin() as store:
        store.save_dead_letters([closed(LETTER, "replayed", 9)])
    assert engine.snapshot().open_dead_letters == 1


def test_a_snapshot_holds_what_was_announced(engine):
    """The newest mark of each way; that of a failed transaction is none."""

    def announce_and_fail():
        with engine.begin() as store:
            store.save_announced("journal", 9)
            raise RollbackError

    with engine.begin() as store:
        store.save_announced("journal", 1)
        store.save_announced("webhook", 2)
        store.save_announced("journal", 3)
    with pytest.raises(RollbackError):
        announce_and_fail()
    assert engine.snapshot().announced == {"journal": 3, "webhook": 2}


def test_a_snapshot_holds_when_each_agent_was_seen(engine):
    """The newest time of each; of those that were never seen, none."""
    assert engine.snapshot().last_seen == {}
    with engine.begin() as store:
        store.save_last_seen({"qa": 5, "pm": 2**60})
    with engine.begin() as store:
        store.save_last_seen({"qa": 4})
    assert engine.snapshot().last_seen == {"qa": 4, "pm": 2**60}
