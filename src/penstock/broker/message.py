"""The neutral envelope: what routing and queues need to know, plus the original bytes.

A message is never changed once it is routed; queues keep their own facts in a `QueueEntry`.
Delayed completion (seeds 001 and 003) is a count here: whoever must do something before the
publisher may get its confirm holds the message, and releases it when that is done or given up.

Invariants
- `holds` never goes below zero; the publisher of a message that was held gets `completed` exactly
  once per sequence number, and no call after it.
- `properties` and `address` objects are shared between messages and never changed.
"""

from typing import Final

from mypy_extensions import mypyc_attr

NO_EXPIRATION: Final = -1
# Origin of a message whose publisher's connection is long gone.
NOBODY: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True, acyclic=True)
class Properties:
    """The facts of a message's header that the broker acts on. A dialect subclasses it and keeps
    the original bytes; identical headers share one object.
    """

    def __init__(self, persistent: bool, priority: int, expiration_ms: int) -> None:
        self.persistent: bool = persistent
        self.priority: int = priority
        self.expiration_ms: int = expiration_ms
        # Whether the publisher set the priority; queues take a message without one for the lowest.
        self.has_priority: bool = False
        # True when the headers name further routing keys (CC, BCC), so a cached route is not enough.
        self.has_extra_keys: bool = False

    def headers(self) -> dict[str, object]:
        """Application headers, parsed when first asked for. Callers must not change the result."""
        raise NotImplementedError

    def text_of(self, name: str) -> str:
        """A property by its AMQP 0-9-1 name as text, for exchanges that route by one; empty when
        it is absent.
        """
        raise NotImplementedError

    def extra_keys(self) -> list[str]:
        """Routing keys from CC and BCC."""
        raise NotImplementedError

    def encoded(self) -> bytes:
        """The original header octets, as the dialect wrote them."""
        raise NotImplementedError

    def as_delivered(self) -> "Properties":
        """What consumers may see of a message with extra keys: without its blind copies."""
        return self

    def rewritten(self, headers: dict[str, object], drop_expiration: bool) -> "Properties":
        """The same properties with other headers, for dead-lettering and delivery counts."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Publisher:
    """The object that waits for a message's completion: a channel in confirm mode, a link, a
    peer.
    """

    # For the ledger: its number in which file, and among all publishers since the start.
    ledger_number: int = 0
    ledger_page: int = -1
    ledger_serial: int = 0

    def identity(self) -> str:
        """The name that its client gave it and that appears in a ledger; empty when it has none."""
        return ""

    def held(self, sequence: int) -> None:
        """The message of this sequence number must not be confirmed yet."""
        raise NotImplementedError

    def completed(self, sequence: int) -> None:
        """Every hold on it has been released."""
        raise NotImplementedError

    def refused(self, sequence: int) -> None:
        """A queue refused it. It is answered negatively when it is complete: at once, or with
        `completed` if it is held.
        """
        raise NotImplementedError


@mypyc_attr(acyclic=True)
class Address:
    """Where a message was published to. Shared by all messages of one publish target."""

    def __init__(self, exchange: str, routing_key: str, encoded: bytes) -> None:
        self.exchange: str = exchange
        self.routing_key: str = routing_key
        # Both as short strings, cached because every delivery and every record repeats them.
        self._octets: bytes = encoded

    def octets(self) -> bytes:
        """Exchange and routing key, each a length octet and its text."""
        if not self._octets:
            exchange = self.exchange.encode("utf-8", "surrogateescape")
            key = self.routing_key.encode("utf-8", "surrogateescape")
            self._octets = b"".join([bytes([len(exchange)]), exchange, bytes([len(key)]), key])
        return self._octets


@mypyc_attr(acyclic=True)
class Message:
    """One published message, however many queues it reaches."""

    # Defaults stand on the class, which spares the interpreted build three stores per message.
    publisher: Publisher | None = None
    sequence: int = 0
    holds: int = 0
    # It was written to the journal in this tick or before; its confirm waits until that is durable.
    is_journalled: bool = False
    # Its location on disk, for the message store; -1 when it is not on disk.
    location: int = -1
    # It is one with what else its tick does (it left a queue, or is part of a transaction): a
    # stream takes it over through the journal.
    through_journal: bool = False

    def __init__(self, address: Address, properties: Properties, body: bytes, origin: int) -> None:
        self.address: Address = address
        self.properties: Properties = properties
        self.body: bytes = body
        # Number of the publishing connection; consumers with no-local compare it.
        self.origin: int = origin

    def routing_keys(self) -> list[str]:
        """The key that it was published with, and those of its CC and BCC headers."""
        keys = [self.address.routing_key]
        if self.properties.has_extra_keys:
            keys.extend(self.properties.extra_keys())
        return keys

    def hold(self) -> None:
        """Delay completion: the publisher gets no answer until a matching `release`."""
        if self.holds == 0 and self.publisher is not None:
            self.publisher.held(self.sequence)
        self.holds += 1

    def release(self) -> None:
        """What it was held for is done, or given up with `refuse`."""
        assert self.holds > 0, "released more often than held"
        self.holds -= 1
        if self.holds == 0 and self.publisher is not None:
            publisher = self.publisher
            # A completed message must not keep its publisher's channel alive in the queue.
            self.publisher = None
            publisher.completed(self.sequence)

    def refuse(self) -> None:
        """Called by a holder just before it releases the message: the message did not reach its
        destination.
        """
        assert self.holds > 0, "only a holder of a message can refuse it"
        if self.publisher is not None:
            self.publisher.refused(self.sequence)


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageDecoder:
    """Decodes messages from their stored form. A dialect implements it."""

    def decode(self, exchange: str, routing_key: str, header: bytes, body: bytes) -> Message:
        raise NotImplementedError

    def decode_addressed(self, address: bytes, header: bytes, body: bytes) -> Message:
        """The same with the octets of an `Address`: messages of one queue mostly share them."""
        key = 1 + address[0]
        return self.decode(
            address[1:key].decode("utf-8", "surrogateescape"),
            address[key + 1 :].decode("utf-8", "surrogateescape"),
            header,
            body,
        )

    def wrap(self, octets: bytes) -> Message:
        """A message of the broker's own around octets that must outlive a restart."""
        raise NotImplementedError
