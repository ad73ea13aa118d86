"""What a conversation reports. `channel` is always the channel's number.

`Delivered` is made for every message, so it decodes only what acknowledging needs and keeps the
rest as the bytes that came.
"""

from dataclasses import dataclass, field

from penstock.client.confirms import Settled
from penstock.client.errors import ReplyError
from penstock.formats.amqp091_delivery import TAG_AND_FLAG_SIZE
from penstock.formats.octets import read_short_string, read_u64
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties, decode_properties


class Delivered:
    """A message for a consumer, or the answer to a get (then `consumer_tag` is empty)."""

    __slots__ = (
        "_names_at",
        "body",
        "channel",
        "consumer_tag",
        "delivery_tag",
        "epoch",
        "header",
        "method",
        "redelivered",
    )

    def __init__(
        self,
        epoch: int,
        channel: int,
        consumer_tag: str,
        names_at: int,
        method: bytes,
        header: bytes,
        body: bytes,
    ) -> None:
        # Which connection it came over: its tag means nothing on another one.
        self.epoch: int = epoch
        self.channel: int = channel
        self.consumer_tag: str = consumer_tag
        self.delivery_tag: int = read_u64(method, names_at - TAG_AND_FLAG_SIZE)
        self.redelivered: bool = method[names_at - 1] & 1 == 1
        self.method: bytes = method
        self.header: bytes = header
        self.body: bytes = body
        # Where exchange and routing key stand in `method`.
        self._names_at: int = names_at

    @property
    def exchange(self) -> str:
        return read_short_string(self.method, self._names_at)

    @property
    def routing_key(self) -> str:
        return read_short_string(self.method, self._names_at + 1 + self.method[self._names_at])

    @property
    def properties(self) -> BasicProperties:
        """Decoded anew at each use; keep it when you need it twice."""
        return decode_properties(self.header)

    def __repr__(self) -> str:
        return f"<Delivered {self.delivery_tag} on {self.channel}, {len(self.body)} bytes>"


@dataclass(frozen=True, slots=True)
class Opened:
    """The broker accepted the connection; channels can be opened."""

    server_properties: dict[str, object]


@dataclass(frozen=True, slots=True)
class Replied:
    """The answer to a call. `message` is there when a get found one."""

    channel: int
    ticket: int
    method: m.Method
    message: Delivered | None = None
    # basic.get-ok only: how many messages the queue still holds.
    messages_left: int = 0


@dataclass(slots=True)  # not frozen, as `Settled`
class Confirmed:
    """The broker's answer to publishes: it has them, or (`nack`) it refuses them."""

    channel: int
    delivery_tag: int
    multiple: bool
    nack: bool
    settled: list[Settled[object]]


@dataclass(frozen=True, slots=True)
class Returned:
    """A mandatory message that reached no queue. Its confirm follows."""

    channel: int
    code: int
    text: str
    exchange: str
    routing_key: str
    header: bytes
    body: bytes

    @property
    def properties(self) -> BasicProperties:
        return decode_properties(self.header)


@dataclass(frozen=True, slots=True)
class ConsumerCancelled:
    """The broker ended a consumer, usually because its queue was deleted."""

    channel: int
    consumer_tag: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """The broker is short of a resource and does not read our publishes for now."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unblocked:
    """Publishes are read again."""


@dataclass(frozen=True, slots=True)
class SecretUpdated:
    """The broker has taken a new password or token for this connection."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The broker asks the channel's publisher to pause (`active` false) or to go on."""

    channel: int
    active: bool


@dataclass(frozen=True, slots=True)
class ChannelClosed:
    """The channel is closed. No error: we asked for it. Calls without an answer get none."""

    channel: int
    error: ReplyError | None
    # Publishes that were neither confirmed nor refused.
    in_doubt: list[Settled[object]] = field(default_factory=list)
    # The connection was lost, and this became of the channel's transaction: `TransactionAborted` or
    # `TransactionUnknown`. A broker that closes the channel alone has dropped its transaction.
    transaction: ReplyError | None = None


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The last event; `ChannelClosed` came before for each channel. No error: we asked for it."""

    error: ReplyError | None


Event = (
    Delivered
    | Opened
    | Replied
    | Confirmed
    | Returned
    | ConsumerCancelled
    | Blocked
    | Unblocked
    | SecretUpdated
    | Flow
    | ChannelClosed
    | ConnectionClosed
)
