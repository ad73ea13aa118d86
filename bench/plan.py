"""What one load is: which lanes publish where, which lanes consume what, how much at a time.

A lane is one connection with one channel. A plan is written to a file as JSON, and the publishing
and the consuming process each read it; nothing else passes between them but the board.
"""

import dataclasses
import json
from pathlib import Path

# Published and not yet delivered, over all lanes. Without this bound a transient publisher fills
# the broker's memory and each broker is measured at a different backlog; with it both do the same
# work. 32 Ki is some 50 ms of the fastest broker: enough that nobody waits for the bound itself.
IN_FLIGHT_MAX = 32_768

# Unconfirmed messages per publishing lane.
CONFIRM_WINDOW = 2_000

# Unacknowledged deliveries per consuming lane, and how many are settled by one multiple ack. Ten
# acks fit into one prefetch, so a consumer never waits because it acknowledges too rarely.
PREFETCH = 5_000
ACK_EVERY = 500

# One write of a publisher. Large enough that the cost of the system call is negligible.
CHUNK_BYTES = 65_536

# Looking at hundreds of lanes costs more than looking at one, so it is done less often. At a
# million messages a second four milliseconds are an eighth of what may be in flight.
MANY_LANES = 16
MANY_LANES_PAUSE_SECONDS = 0.004

# The type of queue that keeps its messages.
STREAM = "stream"


@dataclasses.dataclass(frozen=True, slots=True)
class PublisherLane:
    """Publishes to `exchange` with `routing_keys` in turn; consumers [first, first + count) receive
    its messages.
    """

    exchange: str
    routing_keys: tuple[str, ...]
    consumer_first: int
    consumer_count: int


@dataclasses.dataclass(frozen=True, slots=True)
class Binding:
    """A queue bound to an exchange of the plan's own; the exchange comes into being with it."""

    exchange: str
    kind: str
    queue: str
    key: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class LoadPlan:
    """Everything a load process needs to know; the loader makes it, the processes read it."""

    host: str
    port: int
    publishers: tuple[PublisherLane, ...]
    consumers: tuple[tuple[str, ...], ...]
    size: int
    bindings: tuple[Binding, ...] = ()
    confirms: bool = False
    automatic_acks: bool = True
    durable: bool = False
    queue_type: str = ""
    priorities: int = 0
    """How many priorities the messages have in turn; 0 for none."""
    priorities_max: int = 0
    """How many the queues are declared with; 0 for none."""
    in_flight_max: int = IN_FLIGHT_MAX
    burst_max: int = 1_000_000
    rate: float = 0.0
    """Messages a second; only the paced publisher uses it."""
    authority: str = ""
    """The file of who has signed the broker's certificate; empty is without TLS."""

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(queue for lane in self.consumers for queue in lane)

    @property
    def consume_arguments(self) -> dict[str, str]:
        """By default a stream's reader gets only new messages; here it reads the whole stream."""
        return {"x-stream-offset": "first"} if self.queue_type == STREAM else {}

    @property
    def exchanges(self) -> dict[str, str]:
        """Their kinds by their names."""
        return {binding.exchange: binding.kind for binding in self.bindings}

    @property
    def filler(self) -> bytes:
        return b"x" * self.size

    @property
    def lane_in_flight_max(self) -> int:
        return max(2, self.in_flight_max // len(self.consumers))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self)))


def load_plan(path: Path) -> LoadPlan:
    fields = json.loads(path.read_text())
    fields["publishers"] = tuple(
        PublisherLane(**{**lane, "routing_keys": tuple(lane["routing_keys"])})
        for lane in fields["publishers"]
    )
    fields["consumers"] = tuple(tuple(lane) for lane in fields["consumers"])
    fields["bindings"] = tuple(Binding(**binding) for binding in fields["bindings"])
    return LoadPlan(**fields)


def paired(host: str, port: int, prefix: str, pairs: int, size: int) -> LoadPlan:
    """One publisher, one queue, one consumer, `pairs` times."""
    queues = [f"{prefix}.{index:04d}" for index in range(pairs)]
    return LoadPlan(
        host=host,
        port=port,
        publishers=tuple(PublisherLane("", (q,), i, 1) for i, q in enumerate(queues)),
        consumers=tuple((queue,) for queue in queues),
        size=size,
    )


def acknowledged(plan: LoadPlan, *, durable: bool = False, queue_type: str = "") -> LoadPlan:
    """The same load with confirms and acks; durable: persistent messages, durable queues."""
    return dataclasses.replace(
        plan, confirms=True, automatic_acks=False, durable=durable, queue_type=queue_type
    )


def prioritized(plan: LoadPlan, priorities: int, priorities_max: int) -> LoadPlan:
    """The same load with priorities, and queues that heed them unless their number is 0."""
    return dataclasses.replace(plan, priorities=priorities, priorities_max=priorities_max)


def encrypted(plan: LoadPlan, port: int, authority: str) -> LoadPlan:
    """The same load over TLS."""
    return dataclasses.replace(plan, port=port, authority=authority)


def fanned_out(host: str, port: int, prefix: str, pairs: int, size: int, width: int) -> LoadPlan:
    """One publisher, one fanout exchange, `width` queues with a consumer each, `pairs` times."""
    exchanges = [f"{prefix}.{group:04d}" for group in range(pairs)]
    queues = [f"{prefix}.{index:06d}" for index in range(pairs * width)]
    return LoadPlan(
        host=host,
        port=port,
        publishers=tuple(
            PublisherLane(exchange, ("",), group * width, width)
            for group, exchange in enumerate(exchanges)
        ),
        consumers=tuple((queue,) for queue in queues),
        size=size,
        bindings=tuple(
            Binding(exchanges[index // width], "fanout", queue)
            for index, queue in enumerate(queues)
        ),
    )


def spread(host: str, port: int, prefix: str, queues: int, size: int, burst: int) -> LoadPlan:
    """One publisher whose messages go to `queues` queues in turn, one connection consuming all."""
    names = tuple(f"{prefix}.{index:06d}" for index in range(queues))
    return LoadPlan(
        host=host,
        port=port,
        publishers=(PublisherLane("", names, 0, 1),),
        consumers=(names,),
        size=size,
        burst_max=burst,
    )


def streamed(host: str, port: int, queue: str, publishers: int, size: int) -> LoadPlan:
    """Many publishers to one stream that one consumer reads when they are done."""
    plan = LoadPlan(
        host=host,
        port=port,
        publishers=(PublisherLane("", (queue,), 0, 1),) * publishers,
        consumers=((queue,),),
        size=size,
        # Only the confirms bound the publishers: there are no consumers yet.
        in_flight_max=1 << 62,
    )
    return acknowledged(plan, durable=True, queue_type=STREAM)
