"""The messages of a lease as a row block, for the job that took it."""

from penstock.broker.entry import QueueEntry
from penstock.formats.row_block import RowBlockWriter
from penstock.formats.stream_index import WAS_DELIVERED


def encode_lease(entries: list[QueueEntry], wall: int) -> bytes:
    """All carry the same time, that of the lease."""
    block = RowBlockWriter()
    for entry in entries:
        message = entry.message
        flags = WAS_DELIVERED if entry.is_redelivered else 0
        header = message.properties.encoded()
        block.add(wall, flags, message.address.octets(), header, message.body)
    return block.octets()
