"""Dead letters through a sidecar: what is no question is refused here; the rest only the adapter knows."""

import pytest

from tests.integration.sidecar.harness import Deployment


async def test_without_an_adapter_nothing_is_known(deployment: Deployment) -> None:
    """Every call says so, and may be made again."""
    item = {"recipient": "qa", "channel": "@qa", "channel_sequence_id": 1}
    async with deployment.sidecar() as client:
        for method, path, body in (
            ("GET", "/v1/dead-letters?recipient=qa&limit=5", None), ("GET", "/v1/dead-letters/groups", None),
            ("GET", "/v1/dead-letters/qa/%40qa/1", None), ("POST", "/v1/dead-letters/replay", {"items": [item]}),
            ("POST", "/v1/dead-letters/resolve", {"items": [item], "note": "done"}),
            ("POST", "/v1/dead-letters/replays", {"rate": 5}), ("GET", "/v1/dead-letters/replays", None),
            ("GET", "/v1/dead-letters/replays/x", None), ("DELETE", "/v1/dead-letters/replays/x", None),
        ):  # fmt: skip
            status, problem = await client.call(method, path, body)
            assert (status, problem["type"], problem["retryable"]) == (503, "adapter-unreachable", True), path


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("GET", "/v1/dead-letters?recipient=" + "x" * 129, None, "query recipient"),
        ("GET", "/v1/dead-letters/qa/" + "x" * 129 + "/1", None, "path channel"),
        ("POST", "/v1/dead-letters/replay", {"limit": 501}, "/limit"),
        ("POST", "/v1/dead-letters/resolve", {"items": []}, "/items"),
        ("POST", "/v1/dead-letters/replays", {"rate": 0}, "/rate"),
    ],
)
async def test_what_is_no_question_is_refused_here(
    deployment: Deployment, method: str, path: str, body: object, field: str
) -> None:
    """It would cost the link a request, and a line too long for the adapter would count as a failure of the link."""
    async with deployment.sidecar() as client:
        status, problem = await client.call(method, path, body)
        assert (status, problem["type"], problem["field"]) == (422, "invalid-field", field)
