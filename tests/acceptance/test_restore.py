"""The whole journey of a restore, by real processes: backup, more messages, a lost store, and what everybody learns."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from shared.link import INBOX_PATH
from tests.acceptance.test_cli import MULTICLAW
from tests.support.deployment import Deployment, until
from tests.support.described import DescribedClient
from tests.support.factories import new_key
from tests.support.link_client import LinkClient

_LIMITS = {"health_poll_seconds": 0.05, "alert_window_seconds": 0.1}


async def verb(deployment: Deployment, *arguments: str) -> tuple[int, str, str]:
    """Exit status, output and words of `multiclaw ARGUMENTS`."""
    command = [str(MULTICLAW), *arguments, "--config", str(deployment.config_path)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def texts(messages: list[dict[str, Any]]) -> list[str]:
    """What hand-overs say."""
    return [message["envelope"]["payload"]["text"] for message in messages]


class Journey:
    """One deployment, who speaks on its link, and the agent whose sidecar runs."""

    def __init__(self, deployment: Deployment, pm: LinkClient, qa: DescribedClient) -> None:
        self.deployment, self.pm, self.qa = deployment, pm, qa
        self.store = deployment.config.adapter_store
        self.lost_key = new_key()
        self.gaps: list[dict[str, Any]] = []
        self.fresh: list[dict[str, Any]] = []

    async def send_and_back_up(self) -> None:
        """Three messages, one of them processed; a backup; three more, and all are processed."""
        for text in ("one", "two", "three"):
            await self.pm.send("@qa", payload={"text": text})
        (first,) = await self.qa.take(1)
        await self.qa.ack(first["delivery_id"])
        status, out, words = await verb(self.deployment, "backup", "--json")
        assert status == 0, words
        assert json.loads(out)["last_message"] == 3
        await self.pm.send("@qa", payload={"text": "four"}, idempotency_key=self.lost_key)
        await self.pm.send("@qa", payload={"text": "five"})
        await self.pm.send("product", payload={"text": "to all"})
        seen = await self.qa.take(5)
        assert texts(seen) == ["two", "three", "four", "five", "to all"]
        await self.qa.ack(*(message["delivery_id"] for message in seen))

    async def lose_and_restore(self) -> int:
        """Beside the adapter it is refused; after the store is lost it is done. How many numbers were passed over."""
        adapter = self.deployment.adapter
        assert adapter is not None
        status, _, words = await verb(self.deployment, "restore", "--newest", "--yes")
        assert (status, f"in use by process {adapter.pid}" in words) == (78, True)
        adapter.kill9()
        for suffix in ("", "-wal", "-shm", "-mark", "-witness"):
            self.store.with_name(self.store.name + suffix).unlink(missing_ok=True)
        status, out, _ = await verb(self.deployment, "restore", "--newest", "--dry-run", "--json")
        assert (status, json.loads(out)["restored"], self.store.exists()) == (0, False, False)
        status, _, words = await verb(self.deployment, "restore", "--newest")
        assert (status, "--yes" in words, self.store.exists()) == (1, True, False)
        status, out, words = await verb(self.deployment, "restore", "--newest", "--yes", "--json")
        assert status == 0, words
        return int(json.loads(out)["numbers_passed_over"])

    async def polled(self) -> None:
        """Keep what the agent is given."""
        answer = await self.qa.poll(wait=1)
        if answer.status == 200:
            self.fresh += answer.document["messages"]
            self.gaps += answer.document["gaps"]

    async def has_gaps(self) -> bool:
        """Whether both channels of the agent have told what they lost."""
        await self.polled()
        return len(self.gaps) >= 2

    async def has_messages(self) -> bool:
        """Whether something was handed over."""
        await self.polled()
        return bool(self.fresh)


async def test_a_lost_store_comes_back_and_everybody_learns_what_is_missing(short_folder: Path) -> None:
    """Nothing that was processed reaches an agent again; numbers go on; what is lost is named to its receivers, to
    whoever reads it, to the orchestrator and to the Governor."""
    async with Deployment(short_folder, _LIMITS) as deployment:
        await deployment.start_adapter()
        await deployment.start_sidecar("qa")
        link = deployment.config.adapter_socket
        async with (
            LinkClient(link, deployment.keyring("pm")) as pm,
            LinkClient(link, deployment.keyring("orchestrator")) as orchestrator,
            LinkClient(link, deployment.keyring("human-governor")) as human,
            DescribedClient(deployment.config.sidecar_socket("qa")) as qa,
        ):
            await qa.describe()
            journey = Journey(deployment, pm, qa)
            await journey.send_and_back_up()
            passed_over = await journey.lose_and_restore()
            last = 3 + passed_over
            await deployment.start_adapter()
            await until(journey.has_gaps, "it is told what is lost, before anything new has come")
            assert {"channel": "@qa", "from": 6, "to": last, "reason": "restored"} in journey.gaps
            assert {"channel": "product", "from": 2, "to": passed_over, "reason": "restored"} in journey.gaps

            again = await pm.send("@qa", payload={"text": "four"}, idempotency_key=journey.lost_key)
            assert (again["code"], again["answer"]["channel_sequence_id"]) == (201, last + 1)
            assert (await pm.send("@qa", payload={"text": "six"}))["answer"]["channel_sequence_id"] == last + 2
            await until(journey.has_messages, "what is new comes")
            assert texts(journey.fresh) == ["six"], "what was processed was handed to the agent again"

            gone = (await qa.call("GET", "/v1/channels/@qa/messages?from=4&to=5")).document
            assert gone["lost"] == [{"from": 4, "to": 5, "reason": "restored"}]
            page = (await qa.call("GET", f"/v1/channels/@qa/messages?from=3&to={last + 1}")).document
            assert page["gaps"] == [{"channel": "@qa", "from": 4, "to": last, "reason": "restored"}]

            told = [one["envelope"]["payload"] for one in await orchestrator.poll(wait=5)]
            (alert,) = [one for one in told if "put back" in one.get("summary", "")]
            assert {"channel": "@qa", "from": 4, "to": last} in alert["lost"]
            inbox = (await human.call("GET", INBOX_PATH)).document["messages"]
            assert [one["envelope"]["type"] for one in inbox].count("alert.restore/1") == 1
        assert set((await deployment.stop_all()).values()) == {0}
