"""Submitting a batch: sign now, send, and give an outcome for each message.

Signing happens here, when a message leaves, and not when it was queued: a signature is good for minutes only.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from shared.clock import Clock
from shared.link import MESSAGES_PATH
from shared.signing import sign_envelope
from shared.strict_json import encode
from sidecar.core.drafts import Draft
from sidecar.core.link_outcome import UNSETTLED, LinkAnswer, Outcome, Verdict, read_outcome
from sidecar.link import Link

_OF_THE_SIDECAR: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
"""Refusals of a whole request that speak of who asks, not of a message in it."""


class Submitter:
    """The one way messages reach the adapter, used by the direct path and by the drain, never by both at once."""

    def __init__(self, link: Link, clock: Clock) -> None:
        self._link = link
        self._clock = clock

    async def submit(self, drafts: Sequence[Draft]) -> list[Outcome]:
        """Outcomes in order. One whose signature had grown stale on the way is signed again and sent once more."""
        outcomes = await self._submit(drafts)
        stale = [position for position, outcome in enumerate(outcomes) if _is_stale(outcome)]
        if stale:
            again = await self._submit([drafts[position] for position in stale])
            for position, outcome in zip(stale, again, strict=True):
                outcomes[position] = outcome
        return outcomes

    async def _submit(self, drafts: Sequence[Draft]) -> list[Outcome]:
        now_us = self._clock.wall_us()
        envelopes = [sign_envelope(draft.envelope, self._link.key, now_us) for draft in drafts]
        answer = await self._link.call("POST", MESSAGES_PATH, encode({"envelopes": envelopes}))
        if answer.verdict is Verdict.ACCEPTED:
            return _read(answer, len(drafts))
        if answer.verdict is Verdict.REFUSED and answer.status not in _OF_THE_SIDECAR:
            return await self._apart(answer, drafts)
        # The problem of a whole request is not that of any one message, so no outcome carries it.
        verdict = Verdict.LATER if answer.verdict is Verdict.REFUSED else answer.verdict
        return [Outcome(verdict, answer.status or 0)] * len(drafts)

    async def _apart(self, answer: LinkAnswer, drafts: Sequence[Draft]) -> list[Outcome]:
        """The request was refused for what one message holds: find it, so that its neighbours do not suffer.

        Nothing overtakes here either: behind a message that has to come again the rest is not sent.
        """
        if len(drafts) == 1:
            return [Outcome(answer.verdict, answer.status or 0, problem=answer.document)]
        outcomes: list[Outcome] = []
        for draft in drafts:
            if outcomes and outcomes[-1].verdict in UNSETTLED:
                outcomes.append(Outcome(Verdict.LATER, 0))
            else:
                outcomes += await self._submit([draft])
        return outcomes


def _read(answer: LinkAnswer, count: int) -> list[Outcome]:
    outcomes = [read_outcome(element) for element in (answer.document or {}).get("outcomes", ())]
    return outcomes if len(outcomes) == count else [Outcome(Verdict.UNKNOWN, 0)] * count


def _is_stale(outcome: Outcome) -> bool:
    return (outcome.problem or {}).get("type") == "signature-stale"
