"""An outbox as a person at a shell meets it: it fills while the adapter is down, is looked into, mended and drained."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.agent_client import AgentClient
from tests.support.deployment import Deployment, until
from tests.support.invariant import read_store
from tests.unit.cli.runner import Result, run

_LIMITS = {
    "outbox_max": 10, "outbox_critical_reserve": 2, "health_poll_seconds": 0.1, "breaker_reset_seconds": 0.1,
    "breaker_reset_cap_seconds": 0.3,
}  # fmt: skip


class Shell:
    """Runs verbs of `multiclaw outbox` as pm, in a thread: each in a process of its own would take a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, deployment: Deployment) -> None:
        self._monkeypatch = monkeypatch
        self._config = deployment.config_path

    async def __call__(self, *arguments: str) -> Result:
        """How it ended and what it said."""
        options = ("--as", "pm", "--config", self._config)
        return await asyncio.to_thread(run, self._monkeypatch, "outbox", *arguments, *options)

    async def outbox(self, verb: str, *arguments: str) -> dict:
        """The document of a verb of `outbox`."""
        done = await self(verb, *arguments, "--json")
        assert done.status == 0, done.err
        return json.loads(done.out)


async def test_an_outbox_from_the_first_wait_to_the_last_word(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Filled to its reserve and beyond, seen, one dropped, one refused and sent again; all others arrive in order."""
    async with Deployment(short_folder, _LIMITS) as deployment:
        await deployment.start_sidecar("pm")
        shell = Shell(monkeypatch, deployment)
        async with AgentClient(deployment.config.sidecar_socket("pm")) as pm:
            keys = [await _send(pm, 202, payload={"text": str(number)}) for number in range(7)]
            keys.append(await _send(pm, 202, payload={"text": 7}))
            await _send(pm, 503, payload={"text": "too late"})
            cancel = await _send(pm, 202, type="task.cancel/1", task_id="t", payload={})
            await _look(shell, keys, cancel)
            await until(lambda: _lasts(pm, "outbox-full", "outbox-nearly-full"), "the operator is told")
            dropped = await shell.outbox("drop", keys[0], "--yes")
            assert [(one["status"], one["was"]) for one in dropped["outcomes"]] == [("dropped", "waiting")]
            await deployment.start_adapter()
            await until(lambda: _drained(pm, dead=1), "all but one arrive")
            await until(lambda: _lasts(pm, "outbox-refused"), "only that is left to tell")
            await _mend(shell, pm, keys[7])
            await until(lambda: _lasts(pm), "all of it is over")
        arrived = [m.envelope["idempotency_key"] for m in read_store(deployment.config.adapter_store).messages]
        assert arrived == [*keys[1:7], cancel]


async def _send(pm: AgentClient, status: int, **fields: object) -> str | None:
    answer = await pm.call("POST", "/v1/messages", {"to": "@qa", "type": "note/1"} | fields)
    assert answer.status == status, answer
    return answer.document.get("idempotency_key")


async def _drained(pm: AgentClient, dead: int) -> bool:
    health = await pm.health()
    return (health["outbox_depth"], health["outbox_dead"]) == (0, dead)


async def _lasts(pm: AgentClient, *conditions: str) -> bool:
    health = await pm.health()
    return [one["condition"] for one in health["conditions"]] == list(conditions)


async def _look(shell: Shell, keys: list, cancel: str | None) -> None:
    """What a full outbox shows, in words and as JSON; without `--yes` nothing is dropped."""
    page = await shell.outbox("list")
    assert [one["idempotency_key"] for one in page["waiting"]] == [*keys, cancel]
    assert page["waiting"][-1]["priority"] == "critical"
    lines = (await shell("list", "--limit", "8")).out.splitlines()
    assert lines[0].startswith(f"1 {keys[0]} to @qa note/1 normal")
    assert lines[8:] == [
        "9 of 10 places taken, the last 2 for critical messages", f"there are more; to go on, add: --after {8:x}"
    ]  # fmt: skip
    assert (await shell.outbox("show", keys[2]))["envelope"]["payload"] == {"text": "2"}
    refused = await shell("drop", keys[0])
    assert (refused.status, "--yes" in refused.err) == (2, True)
    unknown = await shell("show", "00000000-0000-7000-8000-000000000000")
    assert (unknown.status, "not-found" in unknown.err) == (1, True)


async def _mend(shell: Shell, pm: AgentClient, key: str) -> None:
    """The refused one says why, is refused again when it is sent again, and is done with."""
    (one,) = (await shell.outbox("list", "--dead"))["dead"]
    assert (one["idempotency_key"], one["problem"]["type"]) == (key, "contract-violation")
    assert "contract-violation" in (await shell("list", "--dead")).out
    assert (await shell.outbox("resend", "--all"))["outcomes"][0]["status"] == "queued"
    await until(lambda: _drained(pm, dead=1), "it is refused again")
    again = await shell("resend", "00000000-0000-7000-8000-000000000000")
    assert (again.status, "1 of 1 were refused" in again.err) == (1, True)
    assert (await shell("drop", "--all", "--yes")).status == 2
    assert (await shell.outbox("drop", "--dead", "--all", "--yes"))["outcomes"][0]["was"] == "dead"
    assert await _drained(pm, dead=0)
