"""That something has changed: told by whoever changes it, and waited for by whoever watches."""

import asyncio


class Changes:
    """Tell it as often as you like: whoever waits wakes once, and looks at all of it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        """Something has changed."""
        self._event.set()

    async def wait(self, seconds_max: float | None) -> None:
        """Return when something has changed since the last return, or after so long."""
        try:
            async with asyncio.timeout(seconds_max):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()
