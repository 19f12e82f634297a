"""Backups over HTTP: asked for and looked at with the Governor's key, and with no other."""

from adapter.backup_keeper import BackupKeeper
from adapter.store.engine import Store
from shared.names import GOVERNOR
from shared.problems import Problem
from shared.web.routes import Answer, Call, json_answer


class BackupRequests:
    """The calls about backups."""

    def __init__(self, keeper: BackupKeeper, store: Store) -> None:
        self._keeper = keeper
        self._store = store

    async def state(self, call: Call) -> Answer:
        """What became of them, and how far the one is that is being made."""
        _permit(call)
        return json_answer(200, self._keeper.state().model_dump())

    async def make(self, call: Call) -> Answer:
        """One more, begun now. It is made once `running` is null and `attempts` has grown."""
        _permit(call)
        if self._store.fault is not None:
            raise Problem("store-unavailable", f"There is nothing to copy: {self._store.fault}.", retry_after=1.0)
        return json_answer(202, self._keeper.ask().model_dump())


def _permit(call: Call) -> None:
    if call.agent != GOVERNOR:
        raise Problem("not-permitted", "Backups are for humans: multiclaw backup.")
