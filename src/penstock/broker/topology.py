"""What can be asked of a virtual host or of the broker, as values.

A dialect makes them, the virtual host applies them; journal and cluster log them. So everything is
decided before a value is made: names the server chooses, hashes of passwords, the connection that
an exclusive queue belongs to.
"""

from dataclasses import dataclass, field
from typing import Final

# Not made on behalf of any connection: definitions, replay, the operator.
NO_CONNECTION: Final = -1


@dataclass(frozen=True, slots=True)
class DeclareExchange:
    name: str
    kind: str
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    passive: bool = False
    arguments: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteExchange:
    name: str
    if_unused: bool = False


@dataclass(frozen=True, slots=True)
class BindExchange:
    destination: str
    source: str
    routing_key: str = ""
    arguments: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnbindExchange:
    destination: str
    source: str
    routing_key: str = ""
    arguments: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeclareQueue:
    name: str
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    passive: bool = False
    arguments: dict[str, object] = field(default_factory=dict)
    connection: int = NO_CONNECTION
    # The name was drawn by the server, so the prefix that is reserved for it is in order.
    server_named: bool = False


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    name: str
    if_unused: bool = False
    if_empty: bool = False
    connection: int = NO_CONNECTION


@dataclass(frozen=True, slots=True)
class BindQueue:
    queue: str
    exchange: str
    routing_key: str = ""
    arguments: dict[str, object] = field(default_factory=dict)
    connection: int = NO_CONNECTION


@dataclass(frozen=True, slots=True)
class UnbindQueue:
    queue: str
    exchange: str
    routing_key: str = ""
    arguments: dict[str, object] = field(default_factory=dict)
    connection: int = NO_CONNECTION


@dataclass(frozen=True, slots=True)
class PurgeQueue:
    name: str
    connection: int = NO_CONNECTION


@dataclass(frozen=True, slots=True)
class ChangeQueueArguments:
    """Set some arguments of a queue that is there; None removes one. See `changed_arguments`."""

    name: str
    arguments: dict[str, object]
    connection: int = NO_CONNECTION


@dataclass(frozen=True, slots=True)
class SetPolicy:
    name: str
    pattern: str
    definition: dict[str, object]
    apply_to: str = "all"
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ClearPolicy:
    name: str


@dataclass(frozen=True, slots=True)
class SetOperatorPolicy:
    """Limits that users of the virtual host cannot raise with policies and arguments of theirs."""

    name: str
    pattern: str
    definition: dict[str, object]
    apply_to: str = "all"
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ClearOperatorPolicy:
    name: str


@dataclass(frozen=True, slots=True)
class SetParameter:
    """A JSON value under the name of a component; RabbitMQ calls it a runtime parameter."""

    component: str
    name: str
    # mypyc cannot make a field of a dataclass that is plainly an `object`.
    value: object | None


@dataclass(frozen=True, slots=True)
class ClearParameter:
    component: str
    name: str


@dataclass(frozen=True, slots=True)
class OpenDelayLine:
    """The first durable delayed exchange holds a message back; made by the broker itself."""


@dataclass(frozen=True, slots=True)
class SetVhostLimits:
    """-1 is no limit."""

    max_queues: int = -1
    max_connections: int = -1


@dataclass(frozen=True, slots=True)
class OpenSink:
    """Somebody stages for a sink that is not known yet; it is theirs from now on."""

    sink: str
    owner: str
    # Whether it is for one job, and forgotten when nobody comes back to it.
    temporary: bool = False


@dataclass(frozen=True, slots=True)
class AdvanceSink:
    """So many rows of a stage are published, and the next ones have to wait."""

    sink: str
    stage: str
    rows: int


@dataclass(frozen=True, slots=True)
class CommitSink:
    """A batch of a sink is to be published out of these stages; -1 forgets the sink."""

    sink: str
    batch: int
    stages: tuple[str, ...]


VhostCommand = (
    DeclareExchange
    | DeleteExchange
    | BindExchange
    | UnbindExchange
    | DeclareQueue
    | DeleteQueue
    | BindQueue
    | UnbindQueue
    | PurgeQueue
    | ChangeQueueArguments
    | SetPolicy
    | ClearPolicy
    | SetVhostLimits
    | SetOperatorPolicy
    | ClearOperatorPolicy
    | SetParameter
    | ClearParameter
    | OpenDelayLine
    | OpenSink
    | AdvanceSink
    | CommitSink
)


@dataclass(frozen=True, slots=True)
class AddVhost:
    """Add a virtual host, or replace what is said about one."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    # Of queues that are declared without `x-queue-type`; empty is classic.
    default_queue_type: str = ""


@dataclass(frozen=True, slots=True)
class DeleteVhost:
    name: str


@dataclass(frozen=True, slots=True)
class PutUser:
    """Add a user, or replace hash and tags of one. The hash comes from `users.hash_password`."""

    name: str
    password_hash: str
    tags: tuple[str, ...] = ()
    loopback_only: bool = False
    # What SCRAM-SHA-256 checks a login with; empty when the user cannot log in that way.
    scram_keys: str = ""


@dataclass(frozen=True, slots=True)
class DeleteUser:
    name: str


@dataclass(frozen=True, slots=True)
class SetPermissions:
    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class ClearPermissions:
    user: str
    vhost: str


@dataclass(frozen=True, slots=True)
class SetTopicPermissions:
    """Which routing keys of a topic exchange a user may publish and bind with."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class ClearTopicPermissions:
    user: str
    vhost: str
    # Empty: of all exchanges.
    exchange: str = ""


@dataclass(frozen=True, slots=True)
class SetUserLimits:
    """-1 is no limit."""

    user: str
    max_connections: int = -1
    max_channels: int = -1


@dataclass(frozen=True, slots=True)
class SetGlobalParameter:
    """A JSON value that belongs to no virtual host."""

    name: str
    value: object | None  # as above


@dataclass(frozen=True, slots=True)
class ClearGlobalParameter:
    name: str


BrokerCommand = (
    AddVhost
    | DeleteVhost
    | PutUser
    | DeleteUser
    | SetPermissions
    | ClearPermissions
    | SetTopicPermissions
    | ClearTopicPermissions
    | SetUserLimits
    | SetGlobalParameter
    | ClearGlobalParameter
)


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """An operator ends a connection; nothing that must outlive the process is changed."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """Applied; there is nothing else to say."""


@dataclass(frozen=True, slots=True)
class QueueDeclared:
    name: str
    message_count: int
    consumer_count: int
    created: bool


@dataclass(frozen=True, slots=True)
class Deleted:
    message_count: int


@dataclass(frozen=True, slots=True)
class Purged:
    message_count: int


Result = Done | QueueDeclared | Deleted | Purged

DONE: Final = Done()
