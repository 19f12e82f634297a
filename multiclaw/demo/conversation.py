"""The scripted conversation: PM assigns, engineering works, qa reviews, the Orchestrator sets policy."""

import asyncio
from typing import Any, Final

from multiclaw.client import Message
from multiclaw.demo.narrator import Narrator
from multiclaw.demo.stage import Stage

_TASKS: Final = (
    "Log in with a passkey",
    "Export invoices as CSV",
    "Rate-limit the public API",
    "Dark mode for the dashboard",
    "Rotate the signing keys",
    "Archive closed projects",
)
_BEFORE_OUTAGE: Final = 3


class Conversation:
    """One run of the script. `react` is what every agent does with a message."""

    def __init__(self, narrator: Narrator) -> None:
        self._narrator = narrator
        self._reviewed: dict[str, asyncio.Event] = {f"task-{n}": asyncio.Event() for n in range(1, len(_TASKS) + 1)}
        self._reactions = {
            ("engineering", "task.assign/1"): self._work,
            ("qa", "review.request/1"): self._review,
            ("pm", "finding/1"): self._close,
        }

    async def play(self, stage: Stage) -> None:
        """The whole story, to the last message processed."""
        self._narrator.act("the Orchestrator sets a policy, and the PM assigns the first tasks")
        await self._say(stage, "orchestrator", "all-agents", "policy.update/1", {"policy": "review everything"})
        names = list(self._reviewed)
        await self._assign(stage, names[:_BEFORE_OUTAGE])
        await asyncio.gather(*(self._reviewed[name].wait() for name in names[:_BEFORE_OUTAGE]))
        self._narrator.alarm("the adapter is killed with SIGKILL and kept down")
        seconds = await stage.outage(lambda: self._meanwhile(stage, names[_BEFORE_OUTAGE:]))
        self._narrator.act(f"the adapter is back, ready {seconds:.2f} s after its start; the outboxes drain in order")
        await asyncio.gather(*(event.wait() for event in self._reviewed.values()))
        await stage.quiet()

    async def react(self, stage: Stage, agent: str, message: Message) -> None:
        """What `agent` does with `message`."""
        reaction = self._reactions.get((agent, message.type))
        if reaction is not None:
            await reaction(stage, message)

    async def _meanwhile(self, stage: Stage, names: list[str]) -> None:
        await self._assign(stage, names)
        await self._say(stage, "orchestrator", "all-agents", "policy.update/1", {"policy": "freeze on Friday"})
        waiting = {agent: depth for agent, depth in (await stage.outboxes()).items() if depth}
        self._narrator.say(f"nothing is lost: outboxes hold {waiting}")

    async def _assign(self, stage: Stage, names: list[str]) -> None:
        for name in names:
            title = _TASKS[int(name.removeprefix("task-")) - 1]
            await self._say(stage, "pm", "@engineering", "task.assign/1", {"title": title}, task_id=name)

    async def _work(self, stage: Stage, message: Message) -> None:
        task = {"task_id": message.task_id, "because": message.key}
        title = message.payload["title"]
        await self._say(stage, "engineering", "@pm", "task.accept/1", {"note": f"on it: {title}"}, **task)
        await self._say(stage, "engineering", "product", "task.progress/1", {"percent": 50}, **task)
        await self._say(stage, "engineering", "product", "task.result/1", {"summary": f"done: {title}"}, **task)
        await self._say(stage, "engineering", "@qa", "review.request/1", {"subject": title}, **task)

    async def _review(self, stage: Stage, message: Message) -> None:
        summary = {"summary": f"reviewed: {message.payload['subject']}", "severity": "info"}
        await self._say(stage, "qa", "@pm", "finding/1", summary, task_id=message.task_id, because=message.key)

    async def _close(self, stage: Stage, message: Message) -> None:
        note = {"text": f"closed {message.task_id}"}
        await self._say(stage, "pm", "product", "note/1", note, task_id=message.task_id, because=message.key)
        self._reviewed[message.task_id or ""].set()

    async def _say(self, stage: Stage, agent: str, to: str, kind: str, payload: dict[str, Any], **more: Any) -> None:
        receipt = await stage.send(agent, to, kind, payload, **more)
        words = str(next(iter(payload.values())))
        self._narrator.sent(agent, to, kind, f"{more.get('task_id', ''):<7} {words}", receipt)
