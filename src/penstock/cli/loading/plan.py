"""What one run does: all settings resolved, so that a faucet's or a sink's process needs nothing
else.

The seed's figures: a *faucet* publishes, *sinks* are queues; the internal switching rate (ISR) is
publishes times the queues each one reaches, the external switching rate (XSR) is what leaves the
broker to consumers. A sink without consumers is bounded, so that it discards.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from penstock.cli.loading.stamp import STAMP_SIZE

# A sink without consumers keeps this many and drops the oldest: few enough that memory does not
# affect the measurement.
UNCONSUMED_SINK_LENGTH_MAX: Final = 1000

# Each faucet and each sink is a process of about 30 MB; a machine of two cores gains nothing from
# more, and a mistyped number should not take it down.
PROCESSES_MAX: Final = 64

# The seed's own figure for one broker: "When Q is 16".
FANOUT_QUEUES: Final = 16

# The publisher's number has two bytes and the names of queues must stay readable.
QUEUES_MAX: Final = 10_000


class Mode(StrEnum):
    """A named bundle of defaults; any of its options can be set on its own."""

    TRANSIENT = "transient"
    CONFIRM = "confirm"
    DURABLE = "durable"
    FANOUT = "fanout"


@dataclass(frozen=True, slots=True)
class Plan:
    """Made once by the command, sent to every process, never changed."""

    uri: str
    run: int
    mode: Mode
    size: int
    publishers: int
    consumers: int
    queues: tuple[str, ...]
    exchange: str
    # With an exchange only; without one, publisher i uses the name of queue i.
    routing_key: str
    confirm_window: int
    no_ack: bool
    prefetch: int
    persistent: bool
    rate: float | None
    messages: int | None
    seconds: float | None
    # Objects that the user named are declared when missing and never deleted.
    owns_exchange: bool
    owns_queues: bool
    # Where the clients' ledgers are written; None for no ledgers.
    ledger: str | None = None

    def __post_init__(self) -> None:
        if self.size < STAMP_SIZE:
            raise PlanRefused(
                f"--size must be at least {STAMP_SIZE}: each body carries the run, the publisher, "
                "its sequence number and the time"
            )
        if self.publishers < 1:
            raise PlanRefused("--publishers must be at least 1")
        if self.publishers + self.consumers > PROCESSES_MAX:
            raise PlanRefused(
                f"{self.publishers} publishers and {self.consumers} consumers need more than "
                f"{PROCESSES_MAX} processes; reduce --publishers or --consumers"
            )
        if not 1 <= len(self.queues) <= QUEUES_MAX:
            raise PlanRefused(f"--queues must be between 1 and {QUEUES_MAX}")

    @property
    def queues_reached(self) -> int:
        """How many queues one publish is routed to."""
        return len(self.queues) if self.exchange else 1

    def key_of(self, publisher: int) -> str:
        if self.exchange:
            return self.routing_key
        return self.queues[publisher % len(self.queues)]

    def queues_of_publisher(self, publisher: int) -> tuple[str, ...]:
        return self.queues if self.exchange else (self.key_of(publisher),)

    def queues_of_consumer(self, consumer: int) -> tuple[str, ...]:
        """Every queue has a consumer when there is one at all; spare consumers share queues."""
        if self.consumers > len(self.queues):
            return (self.queues[consumer % len(self.queues)],)
        return self.queues[consumer :: self.consumers]

    def publisher_name(self, publisher: int) -> str:
        """The name in ledgers, which may hold several runs."""
        return f"{self.run:08x}.{publisher}"

    def share_of_publisher(self, publisher: int) -> int | None:
        if self.messages is None:
            return None
        share, rest = divmod(self.messages, self.publishers)
        return share + (1 if publisher < rest else 0)


class PlanRefused(ValueError):
    """The options contradict each other; the text says which and what to do."""


def make_plan(
    *,
    uri: str,
    run: int,
    mode: Mode = Mode.CONFIRM,
    size: int = 100,
    pairs: int | None = None,
    publishers: int | None = None,
    consumers: int | None = None,
    queues: int | None = None,
    exchange: str | None = None,
    routing_key: str | None = None,
    queue: str | None = None,
    confirm_window: int | None = None,
    no_ack: bool | None = None,
    prefetch: int | None = None,
    persistent: bool | None = None,
    rate: float | None = None,
    messages: int | None = None,
    seconds: float | None = None,
    ledger: str | None = None,
) -> Plan:
    """Fill in missing options from the mode and from the given ones."""
    if pairs is not None and (publishers, consumers, queues, exchange) != (None,) * 4:
        raise PlanRefused(
            "--pairs cannot be combined with --publishers, --consumers, --queues or --exchange"
        )
    if routing_key and not exchange:
        raise PlanRefused(
            "--routing-key needs --exchange; otherwise the queue's name is the routing key"
        )
    fanout = mode is Mode.FANOUT
    transient = mode is Mode.TRANSIENT
    own_name = f"penstock.load.{run:08x}"
    queue_count = queues or pairs or (FANOUT_QUEUES if fanout else 1)
    # Every publish goes to all queues, through an exchange, unless each publisher has its own.
    spread = not exchange and pairs is None and queue_count > 1
    return Plan(
        uri=uri,
        run=run,
        mode=mode,
        size=size,
        publishers=publishers or pairs or 1,
        consumers=consumers if consumers is not None else pairs or (0 if fanout else 1),
        queues=_names(queue or own_name, queue_count),
        exchange=own_name if spread else exchange or "",
        routing_key=routing_key or "",
        confirm_window=confirm_window if confirm_window is not None else 0 if transient else 1000,
        no_ack=transient if no_ack is None else no_ack,
        prefetch=2000 if prefetch is None else prefetch,
        persistent=mode is Mode.DURABLE if persistent is None else persistent,
        rate=rate,
        messages=messages,
        seconds=5.0 if seconds is None and messages is None else seconds,
        owns_exchange=spread,
        owns_queues=queue is None,
        ledger=ledger,
    )


def _names(name: str, count: int) -> tuple[str, ...]:
    return (name,) if count == 1 else tuple(f"{name}.{index}" for index in range(count))
