"""What every exchange is, and the bindings that leave it.

The two classes know each other, so they live in one module. An exchange only selects bindings;
`routing` follows them to queues and further exchanges.

Invariants
- a binding is added to its source at most once and removed at most once;
- `match` changes nothing that a caller can see, and the same arguments select the same bindings
  until the next `add` or `remove`.
"""

from mypy_extensions import mypyc_attr

from penstock.broker.message import Properties
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.replication_level import ReplicationLevel


@mypyc_attr(allow_interpreted_subclasses=True)
class Exchange:
    """One exchange of one virtual host. Held by the virtual host and by the bindings from it."""

    def __init__(
        self,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: dict[str, object],
    ) -> None:
        self.name: str = name
        self.kind: str = kind
        self.durable: bool = durable
        self.auto_delete: bool = auto_delete
        self.internal: bool = internal
        self.arguments: dict[str, object] = arguments
        # How much of it the next root of the cluster has; set by whoever makes it, and never changed.
        self.level: ReplicationLevel = ReplicationLevel.ALL
        # Where messages go that match no binding; from the argument or from a policy.
        self.alternate_name: str | None = None
        # True when the exchange and the routing key alone decide, so that a route can be cached.
        self.by_key_only: bool = True
        # Bindings or nodes of a tree that the last `match` had to look at beside those it selected;
        # 0 where a look-up finds them.
        self.compared: int = 0

    @property
    def is_lasting(self) -> bool:
        """Whether persistent messages that wait in it outlive the process, and in a cluster the
        root.
        """
        return self.durable and self.level is ReplicationLevel.ALL

    def match(self, routing_key: str, properties: Properties, found: "list[Binding]") -> None:
        """Append the bindings that the message takes; the same one may be appended twice."""
        raise NotImplementedError

    def foresee(self, routing_key: str, properties: Properties, found: "list[Binding]") -> None:
        """As `match`, for a message that is not published: where messages take turns, none is taken."""
        self.match(routing_key, properties, found)

    def add(self, binding: "Binding") -> None:
        raise NotImplementedError

    def remove(self, binding: "Binding") -> None:
        raise NotImplementedError

    def check_binding(self, routing_key: str, arguments: dict[str, object]) -> None:
        """Raise `PreconditionFailed` for a binding that this exchange cannot understand."""


class Binding:
    """One way out of an exchange. Exactly one of the two destinations is set."""

    def __init__(
        self,
        source: Exchange,
        destination_queue: MessageQueue | None,
        destination_exchange: Exchange | None,
        routing_key: str,
        arguments: dict[str, object],
    ) -> None:
        assert (destination_queue is None) != (destination_exchange is None), "one destination"
        self.source: Exchange = source
        self.destination_queue: MessageQueue | None = destination_queue
        self.destination_exchange: Exchange | None = destination_exchange
        self.routing_key: str = routing_key
        self.arguments: dict[str, object] = arguments

    @property
    def destination_name(self) -> str:
        if self.destination_queue is not None:
            return self.destination_queue.name
        assert self.destination_exchange is not None, "a binding has one destination"
        return self.destination_exchange.name
