"""What a workload is given, and what it gives."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from bench.deployment import Deployment
from bench.figures import Figures
from bench.ways import WAYS, Way


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
    kept: ClassVar[bool] = False
    """Whether each of its stores is made ready once and then measured in every round, in turn with the others."""
    ways: ClassVar[tuple[str, ...]] = tuple(WAYS)
    compared: ClassVar[Mapping[str, str]] = {}
    """Ratios to the first size in the same round: their names, and the figures they are of."""
    against: ClassVar[Mapping[str, str]] = {"x": "messages_per_s"}
    """Ratios to a peer in the same round, as `compared`."""

    def sizes(self, messages: int) -> list[int]:
        """Numbers of messages of which each is measured by itself, the smallest first."""
        return [messages]

    def patience_seconds(self, messages: int) -> float:
        """How long making ready and running may take beyond the sending; longer means that it hangs."""
        del messages
        return 180.0

    async def ready(self, stage: Stage, tell: Callable[[str], None]) -> None:
        """Before the first round, where stores are kept; `tell` hears how far it is, in words for people."""
        tell(f"{stage.messages:,} messages need nothing made ready")

    @abstractmethod
    async def run(self, stage: Stage) -> Measured:
        """Do it once. It must leave every queue empty."""
