"""What an agent that was away for very long is told, by real processes: nothing is passed over in silence."""

from pathlib import Path

from shared.dead_letters import RESOLVE_PATH
from shared.link import ROOT
from shared.names import direct_channel
from tests.support.deployment import Deployment, until
from tests.support.described import DescribedClient
from tests.support.link_client import LinkClient
from tests.support.store_hand import looking_at

_FORTY_DAYS_US = 40 * 86_400 * 1_000_000
_LIMITS = {"queue_max": 2, "health_poll_seconds": 0.05, "retry_base_seconds": 0.05}
_QA = direct_channel("qa")


async def grow_old(deployment: Deployment) -> None:
    """The adapter stops, 40 days go by for what is stored, and it starts again, to prune every second."""
    assert deployment.adapter is not None
    assert await deployment.adapter.stop() == 0
    with looking_at(deployment.config.adapter_store) as connection:
        connection.execute("UPDATE messages SET accepted_at_us = accepted_at_us - ?", (_FORTY_DAYS_US,))
    await deployment.start_adapter({"MULTICLAW_RETENTION__CHECK_SECONDS": "1"})


async def test_who_was_away_learns_what_is_gone(short_folder: Path) -> None:
    """What was evicted stays until somebody has decided about it; then it goes, and its receiver is told of the gap,
    and from where on there is something; what waited for it is still there."""
    async with Deployment(short_folder, _LIMITS) as deployment:
        await deployment.start_adapter()
        await deployment.start_sidecar("qa")
        link = deployment.config.adapter_socket
        async with (
            LinkClient(link, deployment.keyring("pm")) as pm,
            LinkClient(link, deployment.keyring("orchestrator")) as orchestrator,
            DescribedClient(deployment.config.sidecar_socket("qa")) as qa,
        ):
            await qa.describe()
            await pm.send(_QA)
            (first,) = await qa.take(1)
            assert (await qa.ack(first["delivery_id"])).document["acked"]
            for _ in range(4):
                assert (await pm.send(_QA))["code"] == 201

            await grow_old(deployment)

            async def refused(sequence: int) -> bool:
                target = f"/v1/channels/@qa/messages?from={sequence}&to={sequence}"
                return (await qa.call("GET", target)).status == 416

            await until(lambda: refused(1), "what was processed is pruned")
            evicted = await qa.call("GET", "/v1/channels/@qa/messages?from=2&to=5")
            assert [m["channel_sequence_id"] for m in evicted.document["messages"]] == [2, 3, 4, 5]
            assert evicted.document["gaps"] == []
            items = [{"recipient": "qa", "channel": _QA, "channel_sequence_id": number} for number in (2, 3)]
            resolved = await orchestrator.call("POST", ROOT + RESOLVE_PATH, {"items": items})
            assert resolved.document["resolved"] == 2, resolved.document
            await until(lambda: refused(3), "what was resolved is pruned")

            polled = (await qa.poll(wait=5)).document
            assert [m["envelope"]["channel_sequence_id"] for m in polled["messages"]] == [4, 5]
            assert polled["gaps"] == [{"channel": _QA, "from": 2, "to": 3}]
            gone = (await qa.call("GET", "/v1/channels/@qa/messages?from=2&to=3")).document
            assert (gone["type"], gone["retained_from"], gone["last"]) == ("range-not-retained", 4, 5)
            assert "retained from 4" in gone["detail"]
            future = (await qa.call("GET", "/v1/channels/@qa/messages?from=6&to=6")).document
            assert (future["type"], future["last"], future.get("retained_from")) == ("range-not-retained", 5, None)
            assert (await pm.send(_QA))["answer"]["channel_sequence_id"] == 6
        assert set((await deployment.stop_all()).values()) == {0}
