"""The body of an acknowledgement upstream, from results that are encoded already, and what its answer means."""

from collections.abc import Collection, Mapping
from typing import Any

import orjson

from shared.problems import Problem
from sidecar.core.link_outcome import LinkAnswer, Verdict, classify


def ack_body(results: Mapping[str, bytes | None]) -> dict[str, Any]:
    """An `AckRequest`: every delivery id, and the results of those that have one."""
    body: dict[str, Any] = {"delivery_ids": list(results)}
    stated = {delivery_id: orjson.Fragment(result) for delivery_id, result in results.items() if result is not None}
    return body | {"results": stated} if stated else body


def of_carried(polled: LinkAnswer) -> LinkAnswer:
    """The answer that acks would have had alone, from that to the poll which carried them. A poll that was not taken
    answers for them; one that says nothing of them leaves it open."""
    if polled.verdict is not Verdict.ACCEPTED:
        return polled
    outcome = (polled.document or {}).get("acks") or {}
    document, code = outcome.get("answer") or outcome.get("problem"), outcome.get("code")
    if not isinstance(document, dict) or not isinstance(code, int):
        return LinkAnswer(Verdict.UNKNOWN)
    return LinkAnswer(classify(code, retryable=document.get("retryable") is True), code, document)


def told(
    answer: LinkAnswer, asked: Collection[str], acked: Collection[str], standing: Collection[str]
) -> dict[str, list[str]]:
    """What the agent is told of an answer: an `AckAnswer`, or the adapter's `Problem` where anything of it is stale.

    `acked` are those of `asked` that this answer acknowledges. `standing` are processed for good before it, whatever it
    says: the adapter may not know yet, and is told again when their messages come again, so they are deferred.
    """
    document = answer.document or {}
    if document.get("type") != "stale-lease":
        taken = answer.expect()["acked"]
        return {"acked": list(taken), "deferred": [each for each in asked if each in standing and each not in taken]}
    members = {"acked": [each for each in asked if each in acked], "deferred": [e for e in asked if e in standing]}
    stale = [each for each in document["stale"] if each not in acked and each not in standing]
    if stale:
        raise Problem.from_document({**document, **members, "stale": stale})
    return members
