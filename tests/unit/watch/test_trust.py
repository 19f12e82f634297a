"""Who is believed: our ids from our writers, by what journald itself says of them."""

import json

import pytest

from multiclaw.watch.core.alarm import Alarm, alarm_id
from multiclaw.watch.core.trust import SYSTEMD_EVENTS, Ignored, Trust, judge_line, writer_of
from shared.emergency_news import line_id
from shared.journal_events import (
    EMERGENCY,
    EVENTS,
    GOVERNOR_ESCALATION,
    START_LIMIT_HIT,
    STORE_DAMAGED,
    WATCH_GAP,
    WATCH_UNDELIVERED,
)
from tests.support.journal_entries import SIDECAR, entry, place

SYSTEMD = Trust(by_systemd=True, uid=0)
MINE = Trust(by_systemd=False, uid=1000)
FAILED, RESULT = "be02cf6855d2428ba40df7e9d022f03d", "d9b373ed55a64feb8242e02dbe79a49c"
UNITS = {
    "adapter": "multiclaw-adapter.service",
    "sidecar": SIDECAR,
    "failure": "multiclaw-failure@multiclaw-adapter.service",
    "watch": "multiclaw-watch.service",
}


def of_systemd(message_id: str = RESULT, **fields):
    """What systemd says of the adapter's unit."""
    whole = {"_PID": "1", "_UID": "0", "_SYSTEMD_UNIT": "init.scope", "UNIT": "multiclaw-adapter.service", **fields}
    ours = dict.fromkeys(("MULTICLAW_EVENT", "MULTICLAW_AGENT", "MULTICLAW_KIND", "MULTICLAW_DETAILS"))
    return entry(MESSAGE_ID=message_id, **{**ours, "UNIT_RESULT": "signal", **whole})


def test_an_emergency_of_a_sidecar_is_an_alarm() -> None:
    """All of it is told, with the writer as journald knows it, under an id that is the entry's own."""
    alarm = SYSTEMD.judge(entry(3))
    assert isinstance(alarm, Alarm)
    assert (alarm.event, alarm.agent, alarm.kind, alarm.priority) == ("emergency", "pm", "stuck", 2)
    assert (alarm.summary, alarm.details, alarm.unit, alarm.uid) == ("help 3", {"n": 1}, SIDECAR, 61001)
    assert (alarm.id, alarm.time_us) == (alarm_id(place(3).identity), 3_000_000)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
@pytest.mark.parametrize("writer", UNITS)
def test_each_event_is_believed_of_its_writers_only(event, writer) -> None:
    """A sidecar that was taken over cannot say that the store is damaged, nor an adapter that an agent calls."""
    verdict = SYSTEMD.judge(entry(MESSAGE_ID=event.message_id, _SYSTEMD_UNIT=UNITS[writer]))
    assert isinstance(verdict, Alarm) == (writer in event.writers)
    assert isinstance(verdict, Alarm) or verdict.reason == "forged"


@pytest.mark.parametrize(
    "unit",
    [
        "session-3.scope",
        "user@1000.service",
        "multiclaw-agent@pm.service",
        "multiclaw-sidecar@pm.service.scope",
        "x-multiclaw-sidecar@pm.service",
        "multiclaw-sidecar@.service",
        "multiclaw-failure@.socket",
        "",
    ],
)
def test_other_units_are_not_believed(unit: str) -> None:
    """Whatever the entry says of itself, its unit decides."""
    verdict = SYSTEMD.judge(entry(_SYSTEMD_UNIT=unit, PRIORITY="0", _UID="0"))
    assert verdict == Ignored("forged", "emergency", "0", unit)
    assert writer_of(unit) is None


def test_a_sidecar_speaks_for_its_own_agent() -> None:
    """The instance of the unit names the agent, not the entry."""
    alarm = SYSTEMD.judge(entry(MULTICLAW_AGENT="orchestrator"))
    assert isinstance(alarm, Alarm)
    assert alarm.agent == "pm"


def test_a_writer_that_is_gone_is_not_called_a_forger() -> None:
    """journald may be too late to see the unit of a process that ends at once: no alarm, and no suspicion."""
    verdict = SYSTEMD.judge(entry(_SYSTEMD_UNIT=None))
    assert isinstance(verdict, Ignored)
    assert verdict.reason == "unknown-writer"


def test_two_ids_are_no_id() -> None:
    """An entry that is of two kinds at once is what no process of ours writes."""
    verdict = SYSTEMD.judge(entry(MESSAGE_ID=[EMERGENCY.message_id, "0" * 32]))
    assert isinstance(verdict, Ignored)
    assert verdict.reason == "forged"


def test_what_is_not_ours_is_nothing() -> None:
    """Entries of others are neither alarms nor suspicious."""
    assert SYSTEMD.judge(entry(MESSAGE_ID="0" * 32)) is None
    assert SYSTEMD.judge(entry(MESSAGE_ID=None)) is None
    assert SYSTEMD.judge(of_systemd(UNIT="ssh.service")) is None
    assert SYSTEMD.judge(of_systemd(UNIT=None, USER_UNIT="multiclaw-adapter.service")) is None
    assert MINE.judge(of_systemd()) is None


def test_systemd_tells_of_our_units() -> None:
    """A start that failed, a failure and its result: warnings; what systemd has given up on is critical."""
    alarm = SYSTEMD.judge(of_systemd(UNIT="multiclaw-sidecar@qa.service"))
    assert isinstance(alarm, Alarm)
    assert (alarm.event, alarm.kind, alarm.agent) == ("unit-failed", "multiclaw-sidecar@qa.service", "qa")
    assert (alarm.priority, alarm.details) == (4, {"result": "signal"})
    limit = SYSTEMD.judge(of_systemd(UNIT_RESULT="start-limit-hit"))
    start = SYSTEMD.judge(of_systemd(FAILED, UNIT_RESULT=None, JOB_RESULT="failed"))
    assert isinstance(limit, Alarm)
    assert isinstance(start, Alarm)
    assert (limit.priority, start.event, start.details) == (2, "unit-start-failed", {"result": "failed"})
    assert all(len(message_id) == 32 for message_id in SYSTEMD_EVENTS)


@pytest.mark.parametrize("fields", [{"_PID": "2"}, {"_UID": "1000"}, {"_PID": None}, {"_PID": ["1", "2"]}])
def test_only_systemd_speaks_as_systemd(fields) -> None:
    """Its ids from any other process are forged."""
    verdict = SYSTEMD.judge(of_systemd(**fields))
    assert isinstance(verdict, Ignored)
    assert verdict.reason == "forged"


def test_outside_systemd_the_own_user_is_believed() -> None:
    """Whatever the unit: a deployment that a user runs by hand writes as that user."""
    alarm = MINE.judge(entry(_UID="1000", _SYSTEMD_UNIT="session-3.scope"))
    assert isinstance(alarm, Alarm)
    assert alarm.agent == "pm"
    assert isinstance(MINE.judge(entry(_UID="1001", _SYSTEMD_UNIT=SIDECAR)), Ignored)
    assert isinstance(MINE.judge(entry(_UID=None)), Ignored)


def test_details_that_are_no_json_stay_text() -> None:
    """Nothing that a believed writer says is lost over its form, and NUL, which no message carries, is written out."""
    alarm = SYSTEMD.judge(entry(MULTICLAW_DETAILS="{not", MULTICLAW_KIND="a\0b", MESSAGE=None))
    assert isinstance(alarm, Alarm)
    assert (alarm.details, alarm.kind, alarm.summary) == ("{not", "a\\x00b", "emergency")


def test_who_must_not_be_told() -> None:
    """What the Governor is asked is for a human; that a way failed is not told by that way."""
    escalation = SYSTEMD.judge(entry(MESSAGE_ID=GOVERNOR_ESCALATION.message_id, _SYSTEMD_UNIT=UNITS["adapter"]))
    undelivered = SYSTEMD.judge(
        entry(
            MESSAGE_ID=WATCH_UNDELIVERED.message_id,
            _SYSTEMD_UNIT=UNITS["watch"],
            MULTICLAW_DETAILS='{"way":"command"}',
        )
    )
    assert isinstance(escalation, Alarm)
    assert isinstance(undelivered, Alarm)
    assert (escalation.for_agents, undelivered.for_agents) == (False, True)
    assert (escalation.except_way, undelivered.except_way) == ("", "command")


def line(**changes) -> bytes:
    """A line as `shared/journal.py` writes it."""
    whole = {
        "time": "2026-11-30T09:00:00.000000Z",
        "priority": 2,
        "message_id": EMERGENCY.message_id,
        "event": "emergency",
        "agent": "qa",
        "kind": "stuck",
        "message": "help",
        "details": None,
    }
    return json.dumps({**whole, **changes}).encode()


def test_a_line_of_a_sidecars_file_is_an_alarm() -> None:
    """Its folder names the agent; the same line is the same alarm, and another line is another."""
    alarm = judge_line(line(), "sidecar", "pm", 5)
    assert isinstance(alarm, Alarm)
    assert (alarm.agent, alarm.source, alarm.summary, alarm.uid) == ("pm", "file", "help", 5)
    assert alarm == judge_line(line(), "sidecar", "pm", 5)
    other = judge_line(line(message="help!"), "sidecar", "pm", 5)
    assert isinstance(other, Alarm)
    assert other.id != alarm.id


def test_a_line_that_reached_the_journal_later_is_the_same_alarm() -> None:
    """Read from the file or from the journal, it is told once, with the time when it was raised."""
    text = line()
    early = judge_line(text, "sidecar", "pm", 5)
    late = SYSTEMD.judge(entry(MULTICLAW_LINE=line_id(text), MULTICLAW_TIME="2026-11-30T09:00:00.000000Z"))
    assert isinstance(early, Alarm)
    assert isinstance(late, Alarm)
    assert (late.id, late.time_us) == (early.id, early.time_us)
    spoiled = SYSTEMD.judge(entry(3, MULTICLAW_TIME="soon"))
    assert isinstance(spoiled, Alarm)
    assert spoiled.time_us == 3_000_000


@pytest.mark.parametrize("event", [STORE_DAMAGED, START_LIMIT_HIT, WATCH_GAP], ids=lambda event: event.name)
def test_a_line_is_held_to_the_same_table(event) -> None:
    """A sidecar's file says nothing that a sidecar may not say."""
    verdict = judge_line(line(message_id=event.message_id), "sidecar", "pm", 5)
    assert isinstance(verdict, Ignored)
    assert verdict.reason == "forged"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b"\xff", line(message_id=7), line(time="today"), b"null"])
def test_garbage_is_no_alarm(text: bytes) -> None:
    """What is no line of ours is passed over."""
    verdict = judge_line(text, "sidecar", "pm", 5)
    assert isinstance(verdict, Ignored)
    assert verdict.reason == "unreadable"
