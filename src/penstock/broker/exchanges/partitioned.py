"""Partitioned stream (`x-partitioned-stream`): one name for N streams, each message to one of them.

Declaring the exchange makes its partitions, streams named `NAME-0` to `NAME-(N-1)`, and binds each
under its number. With `x-partition-by` "hash", the default, the routing key alone decides, always
and everywhere alike, so messages of one key stay in order; with "round-robin" they take turns.
Messages of a publisher that counts them (`sent`) take turns by their own count, so that a repeated
message reaches the stream that already has it, also after a restart.

Invariants: a binding's routing key is the number of a partition; the partition of a key, or of a
counted message, does not depend on what is bound. The number of partitions never changes.
"""

from typing import Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges.consistent_hash import hash_of
from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.field_types import type_name
from penstock.broker.message import Properties
from penstock.broker.sent import ID_OCTETS, Sent, sent_of

KIND: Final = "x-partitioned-stream"
COUNT_ARGUMENT: Final = "x-partitions"
BY_ARGUMENT: Final = "x-partition-by"
HASH: Final = "hash"
ROUND_ROBIN: Final = "round-robin"
# Each partition is a stream with files of its own; readers by the thousand need no more.
PARTITIONS_MAX: Final = 1024
# Arguments that are meant for the partitions.
STREAM_ARGUMENTS: Final = (
    "x-max-age",
    "x-max-length-bytes",
    "x-stream-max-segment-size-bytes",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
)


class PartitionedStreamExchange(Exchange):
    def __init__(
        self,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: dict[str, object],
    ) -> None:
        super().__init__(name, kind, durable, auto_delete, internal, arguments)
        if not durable or auto_delete:
            raise PreconditionFailed("a partitioned stream must be durable and not auto-delete")
        self.partition_count: int = _count_of(arguments)
        self._by_turns: bool = _is_by_turns(arguments)
        self.by_key_only = not self._by_turns
        self._next: int = 0
        # The last properties without a publisher, so that messages that share them are not
        # searched.
        self._unnamed: Properties | None = None
        self._bindings: list[list[Binding]] = [[] for _ in range(self.partition_count)]

    def partition_names(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(self.partition_count)]

    def partition_of(self, routing_key: str) -> int:
        return hash_of(routing_key) % self.partition_count

    def turn_of(self, sent: Sent) -> int:
        """Publishers begin in different places, so that few messages of many spread, too."""
        return (hash_of(sent.publisher) + sent.sequence) % self.partition_count

    def match(self, routing_key: str, properties: Properties, found: list[Binding]) -> None:
        number = self._turn(properties) if self._by_turns else self.partition_of(routing_key)
        found.extend(self._bindings[number])

    def foresee(self, routing_key: str, properties: Properties, found: list[Binding]) -> None:
        turn = self._next
        self.match(routing_key, properties, found)
        self._next = turn

    def _turn(self, properties: Properties) -> int:
        if properties is not self._unnamed:
            sent = sent_of(properties) if ID_OCTETS in properties.encoded() else None
            if sent is not None:
                return self.turn_of(sent)
            self._unnamed = properties
        number = self._next
        self._next = (number + 1) % self.partition_count
        return number

    def add(self, binding: Binding) -> None:
        self._bindings[int(binding.routing_key)].append(binding)

    def remove(self, binding: Binding) -> None:
        self._bindings[int(binding.routing_key)].remove(binding)

    def check_binding(self, routing_key: str, arguments: dict[str, object]) -> None:
        digits = routing_key.isascii() and routing_key.isdigit() and len(routing_key) <= 4
        if not digits or int(routing_key) >= self.partition_count:
            raise PreconditionFailed(
                "The binding key of a partitioned stream must be a partition number from "
                f"0 to {self.partition_count - 1}"
            )


def _count_of(arguments: dict[str, object]) -> int:
    count = arguments.get(COUNT_ARGUMENT)
    if isinstance(count, bool) or not isinstance(count, int):
        given = "none" if count is None else type_name(count)
        raise PreconditionFailed(f"{COUNT_ARGUMENT} must be an integer, got {given}")
    if not 1 <= count <= PARTITIONS_MAX:
        raise PreconditionFailed(f"{COUNT_ARGUMENT} must be 1 to {PARTITIONS_MAX}, got {count}")
    return count


def _is_by_turns(arguments: dict[str, object]) -> bool:
    way = arguments.get(BY_ARGUMENT, HASH)
    if way not in {HASH, ROUND_ROBIN}:
        raise PreconditionFailed(f"{BY_ARGUMENT} must be '{HASH}' or '{ROUND_ROBIN}', got {way!r}")
    return way == ROUND_ROBIN
