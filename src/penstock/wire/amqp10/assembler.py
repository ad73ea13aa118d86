"""Assembles the transfers of deliveries that come in several frames, or are resumed or aborted.

A plain delivery of one frame takes a shorter path; see `connection`.

Invariants
- A peer that overruns the link's credit or the link's largest message ends its link.
- Partly received deliveries hold no more bytes than `Limits.assembly_bytes_max`, all links of a
  connection together.
"""

from penstock.wire.amqp10.conditions_generated import (
    INVALID_FIELD,
    LINK_MESSAGE_SIZE_EXCEEDED,
    LINK_TRANSFER_LIMIT_EXCEEDED,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
)
from penstock.wire.amqp10.errors import ConnectionFault, LinkFault
from penstock.wire.amqp10.link import RCV_FIRST, RCV_SECOND, Link
from penstock.wire.amqp10.performatives_generated import Transfer
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.serial import advance
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite


class Assembler:
    """Held by one connection. The received part of a delivery is in its link."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max: int = bytes_max
        # Bytes of partly received deliveries, all links together.
        self.octets: int = 0
        # How many assembled deliveries were completed or given up.
        self.released_count: int = 0

    def add(
        self, session: Session, link: ReceivingLink, transfer: Transfer, payload: bytes
    ) -> None:
        """One more transfer. The link's listener is told when the delivery is complete."""
        first = link.first
        if first is None:
            first = self._first_transfer(link, transfer)
        elif transfer.delivery_id is not None and transfer.delivery_id != first.delivery_id:
            text = f"delivery {transfer.delivery_id} begins before {first.delivery_id} is complete"
            raise LinkFault(NOT_ALLOWED, text)
        if transfer.aborted:
            self.release(link)
            link.forget_assembly()
            return
        size = len(link.assembly) + len(payload)
        if 0 < link.own_message_bytes_max < size:
            text = f"message is larger than {link.own_message_bytes_max} octets"
            raise LinkFault(LINK_MESSAGE_SIZE_EXCEEDED, text)
        # Settled once is settled, and the last state counts (specification 2.7.5).
        link.is_settled = link.is_settled or transfer.settled is True
        if transfer.state is not None:
            link.held_state = transfer.state
        if transfer.more:
            self._hold(len(payload))
            link.first = first
            link.expects_whole = False
            link.assembly += payload
            return
        self._complete(session, link, first, payload)

    def _first_transfer(self, link: ReceivingLink, transfer: Transfer) -> Transfer:
        if link.credit + link.overdraft <= 0:
            raise LinkFault(LINK_TRANSFER_LIMIT_EXCEEDED, "transfer without credit")
        if transfer.delivery_id is None or transfer.delivery_tag is None:
            raise LinkFault(
                INVALID_FIELD,
                "the first transfer of a delivery needs a delivery-id and a delivery-tag",
            )
        if transfer.delivery_id in link.unsettled:
            raise LinkFault(
                INVALID_FIELD,
                f"delivery-id {transfer.delivery_id} is in use by an unsettled delivery",
            )
        if transfer.rcv_settle_mode == RCV_SECOND and link.rcv_settle_mode == RCV_FIRST:
            raise LinkFault(
                INVALID_FIELD,
                "rcv-settle-mode second on a link that agreed on rcv-settle-mode first",
            )
        link.credit -= 1
        link.delivery_count = advance(link.delivery_count, 1)
        link.is_settled = False
        link.held_state = None
        return transfer

    def _complete(
        self, session: Session, link: ReceivingLink, first: Transfer, payload: bytes
    ) -> None:
        whole = payload
        if link.assembly:
            whole = bytes(link.assembly) + payload
        settled = link.is_settled
        state: Composite | None = link.held_state
        self.release(link)
        link.forget_assembly()
        delivery_id = first.delivery_id
        tag = first.delivery_tag
        assert delivery_id is not None
        assert tag is not None
        if not settled:
            link.unsettled[delivery_id] = tag
        session.untaken += 1
        message_format = first.message_format or 0
        link.delivery_settle_mode = first.rcv_settle_mode
        link.delivery_is_resumed = first.resume
        link.listener.delivery_received(
            link, delivery_id, tag, whole, settled, message_format, state
        )
        link.delivery_settle_mode = None
        link.delivery_is_resumed = False

    def _hold(self, size: int) -> None:
        if self.octets + size > self._bytes_max:
            text = f"more than {self._bytes_max} octets of unfinished deliveries"
            raise ConnectionFault(RESOURCE_LIMIT_EXCEEDED, text)
        self.octets += size

    def release(self, link: Link) -> None:
        """A partly received delivery is complete or given up."""
        if isinstance(link, ReceivingLink) and link.assembly:
            self.octets -= len(link.assembly)
            link.assembly = bytearray()
            self.released_count += 1

    def forget(self) -> None:
        """All links are gone."""
        self.octets = 0
