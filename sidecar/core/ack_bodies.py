"""The body of an acknowledgement upstream, from results that are encoded already, and what its answer means."""

from collections.abc import Collection, Mapping
from typing import Any

import orjson

from shared.problems import Problem
from sidecar.core.link_outcome import LinkAnswer


def ack_body(results: Mapping[str, bytes | None]) -> dict[str, Any]:
    """An `AckRequest`: every delivery id, and the results of those that have one."""
    body: dict[str, Any] = {"delivery_ids": list(results)}
    stated = {delivery_id: orjson.Fragment(result) for delivery_id, result in results.items() if result is not None}
    return body | {"results": stated} if stated else body


def unless_stale(answer: LinkAnswer, asked: Collection[str], acked: Collection[str]) -> list[str]:
    """Those of `asked` that are acknowledged: by this answer, or for good before it. Else the adapter's `Problem`, in
    which only what is neither counts as stale."""
    document = answer.document or {}
    if document.get("type") != "stale-lease":
        return list(answer.expect()["acked"])
    members = {"acked": [each for each in asked if each in acked]}
    members["stale"] = [each for each in document["stale"] if each not in acked]
    if members["stale"]:
        raise Problem.from_document({**document, **members})
    return members["acked"]
