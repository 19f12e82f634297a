"""What is told of an alarm."""

import json

from multiclaw.watch.core.alarm import Alarm
from multiclaw.watch.core.trust import Trust
from shared.limits import ENVELOPE_BYTES_MAX
from tests.support.journal_entries import entry


def alarm(**fields) -> Alarm:
    """An alarm of pm's sidecar."""
    found = Trust(by_systemd=True, uid=0).judge(entry(3, **fields))
    assert isinstance(found, Alarm)
    return found


def test_a_line_says_when_how_bad_what_and_who() -> None:
    """A person who tails needs no JSON for it."""
    assert alarm().line() == "1970-01-01T00:00:03.000000Z crit emergency pm (stuck): help 3"


def test_what_an_agent_gets_fits_a_message() -> None:
    """The largest entry that our processes write is cut; the journal still has it."""
    large = alarm(MESSAGE="\x1b" * 65_536, MULTICLAW_DETAILS=json.dumps("\x1b" * 10_000))
    assert len(json.dumps(large.payload())) < ENVELOPE_BYTES_MAX // 2
    assert large.payload()["details"] == {"cut": True, "see": "the journal"}
    assert large.document()["summary"] == large.summary


def test_what_is_stored_comes_back() -> None:
    """An alarm that waits on disk is the same alarm, also with details of any form."""
    one = alarm(MULTICLAW_DETAILS='{"a":[1,null,{"b":"c"}]}')
    assert Alarm.restored(json.loads(json.dumps(one.stored()))) == one
