"""What a workload is given, and what it gives."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from bench.deployment import Deployment
from bench.figures import Figures
from bench.ways import Way


@dataclass(frozen=True, slots=True)
class Stage:
    """A running deployment, a way to it, and how much to do: `messages`, but sending for `seconds` at most."""

    deployment: Deployment
    way: Way
    messages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one run, and what was wrong with it."""

    figures: Figures
    faults: list[str]


class Workload(ABC):
    """One workload. `about` says what is done and what its figures mean."""

    name: ClassVar[str]
    about: ClassVar[str]
    messages_default: ClassVar[int]
    messages_quick: ClassVar[int]
    own_deployment: ClassVar[bool] = False
    """Whether it needs a store that holds nothing yet."""

    @abstractmethod
    async def run(self, stage: Stage) -> Measured:
        """Do it once. It must leave every queue empty."""
