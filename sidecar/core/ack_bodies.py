"""The body of an acknowledgement upstream, from results that are encoded already."""

from collections.abc import Mapping
from typing import Any

import orjson


def ack_body(results: Mapping[str, bytes | None]) -> dict[str, Any]:
    """An `AckRequest`: every delivery id, and the results of those that have one."""
    body: dict[str, Any] = {"delivery_ids": list(results)}
    stated = {delivery_id: orjson.Fragment(result) for delivery_id, result in results.items() if result is not None}
    return body | {"results": stated} if stated else body
