"""Where rows go: looked up once for all rows that repeat one another.

Held while a batch is published or counted; what was found holds as long as the virtual host's
generation.
"""

from typing import Final

from penstock.broker.message import Address, MessageDecoder, Properties
from penstock.broker.publishing.target import Target, resolve_target, target_of
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.vhost import VirtualHost
from penstock.formats.stage_block import RepeatedRows

# Addresses and headers that are kept; above the number all are dropped. Longer headers are not
# kept: most of them come once.
KEPT_MAX: Final = 4096
KEPT_HEADER_BYTES_MAX: Final = 1024


class RowTargets:
    """The targets of rows in one virtual host."""

    def __init__(self, vhost: VirtualHost) -> None:
        self._vhost: VirtualHost = vhost
        self._decoder: MessageDecoder = vhost.streams.decoder
        self._targets: dict[bytes, Target] = {}
        self._properties: dict[bytes, Properties] = {}

    def properties_of(self, row: RepeatedRows) -> Properties:
        known = self._properties.get(row.header)
        return self._read_properties(row.header) if known is None else known

    def _read_properties(self, header: bytes) -> Properties:
        read = self._decoder.decode("", "", header, b"").properties
        if len(header) <= KEPT_HEADER_BYTES_MAX:
            if len(self._properties) >= KEPT_MAX:
                self._properties.clear()
            self._properties[header] = read
        return read

    def target_of(self, row: RepeatedRows, properties: Properties) -> Target:
        """Where a row goes, divided into streams and other queues."""
        kept = self._targets.get(row.address)
        if kept is None or kept.generation != self._vhost.generation:
            kept = self._resolve(row)
        target = target_of(self._vhost.routing, kept, properties)
        if target is not kept:
            target.divide()
        return target

    def _resolve(self, row: RepeatedRows) -> Target:
        vhost = self._vhost
        address = Address(row.exchange(), row.routing_key(), row.address)
        target = resolve_target(vhost.routing, vhost.exchanges.get(address.exchange), address)
        target.divide()
        if len(self._targets) >= KEPT_MAX:
            self._targets.clear()
        self._targets[row.address] = target
        return target


def first_full(queues: list[MessageQueue], body_size: int, now: int) -> MessageQueue | None:
    """The first queue that would refuse a message of this size; a message that a consumer can take
    at once needs no room.
    """
    for queue in queues:
        if _is_full(queue, body_size):
            if queue.consumers.count:
                queue.dispatch(now)
            if _is_full(queue, body_size):
                return queue
    return None


def _is_full(queue: MessageQueue, body_size: int) -> bool:
    settings = queue.settings
    return (
        0 <= settings.max_length <= queue.ready_count
        or 0 <= settings.max_length_bytes < queue.ready_bytes + body_size
    )
