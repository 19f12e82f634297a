"""Results that travel with an acknowledgement, checked alike at the sidecar and at the adapter."""

from shared.api import AckRequest
from shared.limits import RESULT_BYTES_MAX
from shared.problems import Problem
from shared.strict_json import encode, pointer


def encoded_results(request: AckRequest) -> dict[str, bytes]:
    """The JSON of each result given; raises `invalid-field` for one of a stranger, or over `RESULT_BYTES_MAX`."""
    results = request.results or {}
    strangers = [delivery_id for delivery_id in results if delivery_id not in request.delivery_ids]
    if strangers:
        detail = f"A result is given for {strangers[0]!r}, which is not among `delivery_ids`."
        raise Problem("invalid-field", detail, field=pointer(("results", strangers[0])))
    encoded = {delivery_id: encode(result) for delivery_id, result in results.items()}
    for delivery_id, result in encoded.items():
        if len(result) > RESULT_BYTES_MAX:
            detail = f"A result may have {RESULT_BYTES_MAX} bytes; send larger work as a message."
            raise Problem("invalid-field", detail, field=pointer(("results", delivery_id)))
    return encoded
