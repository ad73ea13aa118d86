"""The messages between the crew and its faucets and sinks, over a pipe."""

from dataclasses import dataclass, field
from enum import Enum, auto

from penstock.cli.loading.arrivals import ArrivalsPage


class Order(Enum):
    """From the crew to a process."""

    GO = auto()
    STOP = auto()


@dataclass(frozen=True, slots=True)
class Ready:
    """Connected and set up; waiting for GO."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Totals so far. `blocked` is the broker's reason while it holds publishers back."""

    published: int = 0
    confirmed: int = 0
    delivered: int = 0
    blocked: str | None = None


@dataclass(frozen=True, slots=True)
class FaucetFinished:
    """One publisher's records. Times are the machine's monotonic nanoseconds."""

    publisher: int
    published: int
    confirmed: int
    # Sequences that the broker refused or never answered: they may be lost.
    unpromised: tuple[int, ...]
    started: int
    ended: int
    cpu_seconds: float
    confirm_latency: dict[int, int] = field(default_factory=dict)
    # Why the run ended early, for people.
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class SinkFinished:
    """One consumer's records: pages by queue and publisher."""

    delivered: int
    foreign: int
    last_delivery: int
    cpu_seconds: float
    pages: dict[tuple[str, int], ArrivalsPage] = field(default_factory=dict)
    latency: dict[int, int] = field(default_factory=dict)
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A process that could not begin; the text is for people."""

    reason: str


Report = Ready | Progress | FaucetFinished | SinkFinished | Failed
