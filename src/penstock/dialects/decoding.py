"""Decodes stored messages of either dialect.

The header octets tell them apart: an AMQP 0-9-1 content header begins with its class, 0x003C, and
an AMQP 1.0 head is empty or begins with a descriptor, whose constructor is never 0x3C.
"""

from typing import Final

from penstock.broker.message import NOBODY, Address, Message, MessageDecoder, Properties
from penstock.dialects.amqp091.dialect import Dialect091, wrap
from penstock.dialects.amqp10.messages.properties import TransferProperties, read_head

# Parsed heads and addresses that are kept; above the number all are dropped, and one costs its scan
# again. Longer heads are not kept: so many of them must not hold unaccounted memory.
KEPT_MAX: Final = 4096
KEPT_HEAD_BYTES_MAX: Final = 1024


class DialectDecoder(MessageDecoder):
    """Held by the node, for recovery, and by the streams."""

    def __init__(self, amqp091: Dialect091) -> None:
        # It keeps the content headers that its connections see.
        self._amqp091: Dialect091 = amqp091
        self._heads: dict[bytes, TransferProperties] = {}
        # Messages of one queue mostly have one address.
        self._addresses: dict[tuple[str, str], Address] = {}
        self._address_octets: dict[bytes, Address] = {}

    def decode(self, exchange: str, routing_key: str, header: bytes, body: bytes) -> Message:
        address = self._addresses.get((exchange, routing_key))
        if address is None:
            address = Address(exchange, routing_key, b"")
            if len(self._addresses) >= KEPT_MAX:
                self._addresses.clear()
            self._addresses[(exchange, routing_key)] = address
        return Message(address, self._properties(header), body, NOBODY)

    def decode_addressed(self, address: bytes, header: bytes, body: bytes) -> Message:
        known = self._address_octets.get(address)
        if known is None:
            message = super().decode_addressed(address, header, body)
            if len(self._address_octets) >= KEPT_MAX:
                self._address_octets.clear()
            self._address_octets[address] = message.address
            return message
        return Message(known, self._properties(header), body, NOBODY)

    def wrap(self, octets: bytes) -> Message:
        return wrap(octets)

    def _properties(self, header: bytes) -> Properties:
        if header.startswith(b"\x00\x3c"):
            known = self._amqp091.properties.get(header)
            return self._amqp091.read_stored_properties(header) if known is None else known
        head = self._heads.get(header)
        if head is None:
            head = read_head(header)
            if len(header) <= KEPT_HEAD_BYTES_MAX:
                if len(self._heads) >= KEPT_MAX:
                    self._heads.clear()
                self._heads[header] = head
        return head
