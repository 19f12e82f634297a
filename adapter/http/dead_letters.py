"""Dead letters over HTTP: seen, replayed and resolved by the orchestrator and by nobody else."""

import asyncio
import re
import sqlite3
from dataclasses import dataclass
from typing import Any

import orjson

from adapter.broker import Broker
from adapter.core.commands import Replay, Resolve
from adapter.core.dead_letters import Cycle, Filter
from adapter.http.orchestrator import permit
from adapter.http.roster import Roster
from adapter.store.engine import Store
from adapter.store.letters import Buried, Position, read_groups, read_letter, read_open
from adapter.store.names import Names
from shared.clock import Clock
from shared.dead_letters import (
    CURSOR_PATTERN,
    ITEMS_DEFAULT,
    ITEMS_MAX,
    REASONS,
    Item,
    ReplayRequest,
    ResolveRequest,
    item_document,
)
from shared.limits import INTEGER_MAX
from shared.model import check
from shared.problems import Problem
from shared.times import from_iso, iso
from shared.web.routes import Answer, Call, json_answer


@dataclass(frozen=True, slots=True)
class _Target:
    """A dead letter as it is named on the wire, and the message it is in the store, or the problem with it."""

    recipient: str
    channel: str
    sequence: int
    message: int | Problem


class DeadLetters:
    """The calls about dead letters."""

    def __init__(self, broker: Broker, store: Store, roster: Roster, clock: Clock) -> None:
        self._broker = broker
        self._store = store
        self._roster = roster
        self._clock = clock

    async def page(self, call: Call) -> Answer:
        """Open ones that match, in commit order."""
        permit(call, self._roster.topology)
        wanted = Filter(_filter(call, "recipient"), _reason(call), _moment(call, "before"))
        after = _position(_filter(call, "after"), "query after")
        limit = call.query_int("limit", ITEMS_DEFAULT, 1, ITEMS_MAX)
        found, following = await self._find(wanted, after, limit)
        return json_answer(200, {"dead_letters": [_view(buried) for buried in found], "next": following})

    async def one(self, call: Call) -> Answer:
        """One in full, open or closed."""
        permit(call, self._roster.topology)
        recipient, channel = call.path["recipient"], call.path["channel"]
        sequence = _sequence(call.path["sequence"])
        found = await self._store.read(lambda db, names: read_letter(db, names, recipient, channel, sequence))
        if found is None:
            raise _no_letter(recipient, channel, sequence)
        buried, envelope = found
        history = [_cycle(cycle) for cycle in buried.letter.history]
        return Answer(200, orjson.dumps(_view(buried) | {"history": history, "envelope": orjson.Fragment(envelope)}))

    async def groups(self, call: Call) -> Answer:
        """How many for whom and why."""
        permit(call, self._roster.topology)
        groups = [
            {
                "recipient": group.recipient,
                "reason": group.reason,
                "count": group.count,
                "oldest": iso(group.oldest_us),
                "newest": iso(group.newest_us),
            }
            for group in await self._store.read(read_groups)
        ]
        return json_answer(200, {"groups": groups})

    async def replay(self, call: Call) -> Answer:
        """Queue them again, in commit order."""
        permit(call, self._roster.topology)
        request = check(ReplayRequest, call.json())
        cut_off_us = self._clock.wall_us() if request.cut_off is None else from_iso(request.cut_off)
        targets, following = await self._targets(request, cut_off_us)
        if request.dry_run:
            outcomes = [_outcome(target, "dead") for target in targets]
        else:
            outcomes = await self._decide(targets, Replay)
        refused = sum("problem" in outcome for outcome in outcomes)
        answer = {
            "dry_run": request.dry_run,
            "cut_off": iso(cut_off_us),
            "matched": len(outcomes),
            "replayed": 0 if request.dry_run else len(outcomes) - refused,
            "refused": refused,
            "outcomes": outcomes,
            "next": following,
        }
        return json_answer(200, answer)

    async def resolve(self, call: Call) -> Answer:
        """They stay dead, and are closed."""
        permit(call, self._roster.topology)
        request = check(ResolveRequest, call.json())
        targets = await self._named(request.items, None)
        outcomes = await self._decide(targets, lambda number, name: Resolve(number, name, request.note))
        refused = sum("problem" in outcome for outcome in outcomes)
        answer = {"resolved": len(outcomes) - refused, "refused": refused, "outcomes": outcomes}
        return json_answer(200, answer)

    async def _find(self, wanted: Filter, after: Position | None, limit: int) -> tuple[list[Buried], str | None]:
        """A page, and the cursor of the next one if there is any."""
        found = await self._store.read(lambda db, names: read_open(db, names, wanted, after, limit + 1))
        page = found[:limit]
        last = page[-1].letter if len(found) > limit else None
        return page, None if last is None else f"{last.message_id:x}.{last.recipient}"

    async def _targets(self, request: ReplayRequest, cut_off_us: int) -> tuple[list[_Target], str | None]:
        filters = (request.recipient, request.reason, request.after)
        if request.items is None:
            wanted = Filter(request.recipient, request.reason, cut_off_us)
            found, following = await self._find(wanted, _position(request.after, "/after"), request.limit)
            targets = [
                _Target(each.letter.recipient, each.channel, each.sequence, each.letter.message_id) for each in found
            ]
            return targets, following
        if any(value is not None for value in filters):
            raise Problem("invalid-field", "Give items or filters, not both.", field="/items")
        return await self._named(request.items, cut_off_us), None

    async def _named(self, items: list[Item], cut_off_us: int | None) -> list[_Target]:
        """The targets of these items, in commit order, whatever order they were named in."""

        def look_up(db: sqlite3.Connection, names: Names) -> list[_Target]:
            return [_target(db, names, item, cut_off_us) for item in items]

        targets = await self._store.read(look_up)
        return sorted(targets, key=lambda target: target.message if isinstance(target.message, int) else 0)

    async def _decide(self, targets: list[_Target], command: Any) -> list[dict[str, Any]]:
        """Ask for each in one go; the outcomes, in order."""
        asked = [
            self._broker.submit(command(target.message, target.recipient))
            for target in targets
            if isinstance(target.message, int)
        ]
        answers = iter(await asyncio.gather(*asked, return_exceptions=True))
        outcomes = []
        for target in targets:
            answer = next(answers) if isinstance(target.message, int) else target.message
            if isinstance(answer, BaseException) and not isinstance(answer, Problem):
                raise answer
            outcomes.append(_outcome(target, answer if isinstance(answer, Problem) else answer.status))
        return outcomes


def _target(db: sqlite3.Connection, names: Names, item: Item, cut_off_us: int | None) -> _Target:
    place = item.recipient, item.channel, item.channel_sequence_id
    found = read_letter(db, names, *place)
    if found is None:
        return _Target(*place, _no_letter(*place))
    letter = found[0].letter
    if letter.closure is not None:
        return _Target(*place, Problem("not-dead", f"It was {letter.closure} already; nothing was changed."))
    if cut_off_us is not None and letter.last.died_at_us >= cut_off_us:
        return _Target(*place, Problem("not-dead", "It died again after cut_off; nothing was changed."))
    return _Target(*place, letter.message_id)


def _no_letter(recipient: str, channel: str, sequence: int) -> Problem:
    return Problem("not-found", f"The message {sequence} of {channel!r} never died for {recipient!r}.")


def _outcome(target: _Target, result: str | Problem) -> dict[str, Any]:
    problem = target.message if isinstance(target.message, Problem) else result
    item = item_document(target.recipient, target.channel, target.sequence)
    return item | ({"problem": problem.document()} if isinstance(problem, Problem) else {"status": problem})


def _view(buried: Buried) -> dict[str, Any]:
    letter = buried.letter
    return {
        **item_document(letter.recipient, buried.channel, buried.sequence),
        "sender": buried.sender,
        "type": buried.type,
        "task_id": buried.task_id,
        "reason": letter.last.reason,
        "detail": letter.last.detail,
        "cycles": letter.cycles,
        "died_at": iso(letter.last.died_at_us),
        "closure": letter.closure,
        "closed_at": None if letter.closed_at_us is None else iso(letter.closed_at_us),
        "note": letter.note,
        "replaced_by": None if letter.replaced_by is None else _place(*letter.replaced_by),
    }


def _place(channel: str, sequence: int) -> dict[str, Any]:
    return {"channel": channel, "channel_sequence_id": sequence}


def _cycle(cycle: Cycle) -> dict[str, Any]:
    return {
        "reason": cycle.reason,
        "detail": cycle.detail,
        "handovers": cycle.handovers,
        "failures": cycle.failures,
        "died_at": iso(cycle.died_at_us),
    }


def _filter(call: Call, name: str) -> str | None:
    return call.request.query.get(name)


def _reason(call: Call) -> str | None:
    reason = _filter(call, "reason")
    if reason is not None and reason not in REASONS:
        raise Problem("invalid-field", f"A reason is one of {', '.join(REASONS)}.", field="query reason")
    return reason


def _moment(call: Call, name: str) -> int | None:
    text = _filter(call, name)
    try:
        return None if text is None else from_iso(text)
    except ValueError as error:
        raise Problem("invalid-field", f"{name}: {error}.", field=f"query {name}") from error


def _position(cursor: str | None, field: str) -> Position | None:
    if cursor is None:
        return None
    if not re.fullmatch(CURSOR_PATTERN, cursor):
        raise Problem("invalid-field", "A cursor is the `next` of an earlier answer.", field=field)
    number, _, recipient = cursor.partition(".")
    return int(number, 16), recipient


def _sequence(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,15}", text) or int(text) > INTEGER_MAX:
        raise Problem("invalid-field", "A sequence is a whole number from 1.", field="path sequence")
    return int(text)
