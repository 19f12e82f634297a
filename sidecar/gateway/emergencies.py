"""How an agent calls for help without the adapter."""

from shared.api import EmergencyRequest
from shared.journal import Entry, Journal
from shared.journal_events import EMERGENCY
from shared.model import check
from shared.web.routes import Answer, Call, json_answer


class Emergencies:
    """Writes what one agent cries out where an operator looks."""

    def __init__(self, agent: str, journal: Journal) -> None:
        self._agent = agent
        self._journal = journal

    async def record(self, call: Call) -> Answer:
        """An entry in the journal, else in the local file, else on standard error."""
        request = check(EmergencyRequest, call.json())
        entry = Entry(EMERGENCY, request.summary, request.kind, self._agent, request.details)
        return json_answer(201, {"recorded": await self._journal.record(entry)})
