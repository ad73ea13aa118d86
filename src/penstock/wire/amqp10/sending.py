"""The sending end of a link: transfers written, unsettled deliveries kept (specification 2.6.12).

A transfer that fits one frame is

    size | 02 00 channel 00 53 14 C0 size 05 handle 70 id' | id" | A0 04 tag' | tag" | 43 42 | payload

where id" and tag" are the last octets of the delivery id and of the delivery tag. Most
transfers of a link repeat the one before: they differ only in these and in the payload. So the parts
in between are kept, each renewed when the octets before its last one change. A transfer then costs eight list
appends and copies nothing.

The delivery tag is a number, counted on over several sessions of a link (`first_tag`), and so unique
for its life.

Invariants
- Nothing is sent without credit, and no frame without room in the session's window.
- The rest of a delivery for which the window was full waits in `_rest`, and is sent before anything
  else of this link.
"""

from struct import Struct
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.formats.octets import LAST_OCTETS
from penstock.wire.amqp10.conditions_generated import INVALID_FIELD
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.framing import AMQP_FRAME, FRAME_HEAD_SIZE, encode_frame
from penstock.wire.amqp10.link import SENDER, Link
from penstock.wire.amqp10.performatives_generated import Accepted, Attach, Flow, Transfer
from penstock.wire.amqp10.serial import MASK, advance, difference
from penstock.wire.amqp10.values import Composite
from penstock.wire.amqp10.window import SessionWindow
from penstock.wire.outgoing import Outgoing

_U32: Final = Struct(">I")
# message-format 0, then settled.
_UNSETTLED: Final = b"\x43\x42"
_SETTLED: Final = b"\x43\x41"
_ACCEPTED: Final = Accepted()
# Octets of the frame beside head, payload and the handle: size, last octets and what is between.
_FIXED_SIZE: Final = 4 + 4 + 6 + 4 + 1 + 5 + 1 + 2


@mypyc_attr(allow_interpreted_subclasses=True)
class SentDelivery:
    """A delivery that we sent unsettled. The owner's subclass adds what was sent."""

    def __init__(self) -> None:
        self.delivery_id: int = -1
        # The number that made its tag; see `delivery_tag`.
        self.number: int = 0
        # A tag of the owner's choice; empty for the usual one.
        self.tag: bytes = b""

    def delivery_tag(self) -> bytes:
        return self.tag or _U32.pack(self.number)


@mypyc_attr(allow_interpreted_subclasses=True)
class SettlementListener:
    """The owner of the deliveries. May raise faults of all three levels."""

    def credit_changed(self, link: "SendingLink") -> None:
        """There may be something to send now, by credit or by window; see `SendingLink.capacity`.
        When it `is_draining` and there is no more, call `drained`.
        """
        raise NotImplementedError

    def delivery_updated(
        self, link: "SendingLink", sent: SentDelivery, state: Composite | None, settled: bool
    ) -> None:
        """A disposition of the receiver for a delivery. One that it settled is forgotten already;
        for one that it did not, answer with `Session.settle_sent` once the state is a final one.
        """
        raise NotImplementedError

    def deliveries_accepted(self, link: "SendingLink", accepted: list[SentDelivery]) -> None:
        """The receiver accepted and settled these with one disposition; they are forgotten."""
        for sent in accepted:
            self.delivery_updated(link, sent, _ACCEPTED, True)


class SendingLink(Link):
    """Held by its session; the owner sends."""

    def __init__(self, session: SessionWindow, name: str, listener: SettlementListener) -> None:
        super().__init__(session, name, SENDER)
        self.listener: SettlementListener = listener
        self.unsettled: dict[int, SentDelivery] = {}
        # Of the last flow that had any; the owner takes them.
        self.flow_properties: dict[str, object] | None = None
        self.initial_delivery_count: int = 0
        # Of a tag, beyond the delivery-count: a link that resumes counts its deliveries anew,
        # because some clients take every count to begin at 0, and its tags onwards.
        self.first_tag: int = 0
        # Credit that was used up for nothing, of which the delivery-count says nothing else.
        self.drained_count: int = 0

        # The kept parts of the last transfer, see above.
        self._handle_octets: bytes = b""
        self._upper_id: int = -1
        self._head: bytes = b""
        self._upper_number: int = -1
        self._middle: bytes = b""
        self._fixed_size: int = 0
        self._size: int = -1
        self._size_octets: bytes = b""

        # A delivery that waits for the window.
        self._rest: bytes = b""
        self._rest_at: int = 0
        self._rest_first: Transfer | None = None
        self._rest_id: int = -1
        self._is_aborting: bool = False

    def sent_count(self) -> int:
        """Deliveries of this attachment, modulo what a delivery-count can count."""
        sent = difference(self.delivery_count, self.initial_delivery_count)
        return (sent - self.drained_count) & MASK

    def said(self, attach: Attach) -> None:
        super().said(attach)
        self.initial_delivery_count = self.delivery_count = attach.initial_delivery_count or 0
        handle = attach.handle
        if handle == 0:
            self._handle_octets = b"\x43"
        elif handle < 0x100:
            self._handle_octets = b"\x52" + LAST_OCTETS[handle]
        else:
            self._handle_octets = b"\x70" + _U32.pack(handle)
        self._fixed_size = _FIXED_SIZE + len(self._handle_octets)
        self._upper_id = -1

    def silence(self) -> None:
        super().silence()
        self._rest = b""
        self._rest_id = -1
        self._rest_first = None

    def capacity(self) -> int:
        """Deliveries of one frame that may be sent now. If the window allows none, that is
        remembered, and the listener is called when there is room.
        """
        if self.credit <= 0 or not self.is_attached or self._rest_id >= 0:
            return 0
        return min(self.credit, self.session.room())

    def can_send(self) -> bool:
        """Whether one more of the deliveries that `capacity` allowed can go out: one of several
        frames may have used up the window. That is remembered, as by `capacity`.
        """
        if self._rest_id >= 0:
            return False
        if self.session.remote_incoming_window <= 0:
            self.session.is_stalled = True
            return False
        return True

    def send(self, sent: SentDelivery, head: bytes, body: bytes) -> None:
        """One delivery, unsettled; head and body together are the message. Needs capacity."""
        delivery_id = self.session.next_delivery_id
        sent.delivery_id = delivery_id
        sent.number = self.next_tag()
        self.unsettled[delivery_id] = sent
        self.session.outgoing_window -= 1
        if sent.tag:
            self.send_as(Transfer(delivery_tag=sent.tag, settled=False), head + body)
        else:
            self._send(head, body, _UNSETTLED)

    def next_tag(self) -> int:
        return (self.first_tag + self.delivery_count) & MASK

    def send_settled(self, head: bytes, body: bytes) -> None:
        """One delivery, settled when sent: the peer sends no outcome for it."""
        self._send(head, body, _SETTLED)

    def _send(self, head: bytes, body: bytes, flags: bytes) -> None:
        session = self.session
        number = (self.first_tag + self.delivery_count) & MASK
        delivery_id = session.next_delivery_id
        size = self._fixed_size + len(head) + len(body)
        if size > session.frame_max:
            transfer = Transfer(delivery_tag=_U32.pack(number), settled=flags is _SETTLED)
            self.send_as(transfer, head + body)
            return
        assert self.credit > 0, "sent without credit"
        assert session.remote_incoming_window > 0, "sent without room in the window"
        if delivery_id >> 8 != self._upper_id or number >> 8 != self._upper_number:
            self._compose(delivery_id, number)
        if size != self._size:
            self._size = size
            self._size_octets = _U32.pack(size)
        self.credit -= 1
        self.delivery_count = (self.delivery_count + 1) & MASK
        session.next_delivery_id = (delivery_id + 1) & MASK
        session.next_outgoing_id = (session.next_outgoing_id + 1) & MASK
        session.remote_incoming_window -= 1
        outgoing: Outgoing = session.outgoing
        pieces = outgoing.pieces
        if not pieces:
            outgoing.flush_list.append(outgoing)
        pieces.append(self._size_octets)
        pieces.append(self._head)
        pieces.append(LAST_OCTETS[delivery_id & 0xFF])
        pieces.append(self._middle)
        pieces.append(LAST_OCTETS[number & 0xFF])
        pieces.append(flags)
        if head:
            pieces.append(head)
        pieces.append(body)
        outgoing.size += size

    def _compose(self, delivery_id: int, number: int) -> None:
        """Keep the parts of the frame for all ids and tags that differ in the last octet."""
        self._upper_id = delivery_id >> 8
        self._upper_number = number >> 8
        # Of the list: its count, the handle, delivery id, delivery tag, format and settled.
        list_size = 1 + len(self._handle_octets) + 5 + 6 + 2
        self._head = b"".join(
            [
                b"\x02\x00",
                self.session.channel.to_bytes(2, "big"),
                b"\x00\x53\x14\xc0",
                bytes((list_size, 5)),
                self._handle_octets,
                b"\x70",
                self._upper_id.to_bytes(3, "big"),
            ]
        )
        self._middle = b"\xa0\x04" + self._upper_number.to_bytes(3, "big")

    def send_as(self, transfer: Transfer, payload: bytes) -> None:
        """The general way: any fields, in as many frames as it takes. Handle, delivery id and
        more are filled in; the tag, settled, state, format and resume are the caller's. The
        first frame must name a format, which is AMQP's own where the caller names none.
        """
        assert self.credit > 0, "sent without credit"
        assert self._rest_id < 0, "sent while another delivery is half sent"
        self.credit -= 1
        self.delivery_count = advance(self.delivery_count, 1)
        transfer.handle = self.handle
        transfer.delivery_id = self._rest_id = self.session.next_delivery()
        if transfer.message_format is None:
            transfer.message_format = 0
        self._rest_first = transfer
        self._rest = payload
        self._rest_at = 0
        self._is_aborting = False
        self.continue_sending()

    def send_again(self, sent: SentDelivery, transfer: Transfer, payload: bytes) -> None:
        """A delivery of an earlier attachment, unsettled, with its old tag."""
        sent.delivery_id = self.session.next_delivery_id
        sent.number = self.next_tag()
        self.unsettled[sent.delivery_id] = sent
        self.session.outgoing_window -= 1
        self.send_as(transfer, payload)

    def is_waiting(self) -> bool:
        """Whether a delivery is partly sent."""
        return self._rest_id >= 0

    def abort(self) -> None:
        """Give up the delivery that is half sent: the receiver forgets it."""
        if self._rest_id >= 0:
            self._is_aborting = True
            self.continue_sending()

    def continue_sending(self) -> None:
        """Frames of the delivery that is half sent, as many as the window takes."""
        session = self.session
        while self._rest_id >= 0:
            if session.remote_incoming_window <= 0 or not session.is_open:
                session.is_stalled = True
                return
            transfer = self._rest_first or Transfer(self.handle, self._rest_id)
            if self._is_aborting:
                transfer.aborted = True
                self._finish_waiting()
                self._forget_aborted(transfer)
                self._write(transfer, b"")
                return
            transfer.more = True
            room = session.frame_max - FRAME_HEAD_SIZE - len(transfer.encode())
            stop = self._rest_at + max(room, 1)
            transfer.more = stop < len(self._rest)
            payload = self._rest[self._rest_at : stop]
            self._rest_at = stop
            self._rest_first = None
            if not transfer.more:
                self._finish_waiting()
            self._write(transfer, payload)

    def _finish_waiting(self) -> None:
        self._rest = b""
        self._rest_id = -1
        self._rest_first = None

    def _forget_aborted(self, transfer: Transfer) -> None:
        assert transfer.delivery_id is not None
        if self.unsettled.pop(transfer.delivery_id, None) is not None:
            self.session.outgoing_window += 1

    def _write(self, transfer: Transfer, payload: bytes) -> None:
        self.session.frame_sent()
        self.session.outgoing.push(
            encode_frame(AMQP_FRAME, self.session.channel, transfer.encode() + payload)
        )

    def drained(self) -> None:
        """There is no more to send: the credit that is left is used up at once."""
        if not self.is_draining or not self.is_attached or self._rest_id >= 0:
            return
        self.drained_count += max(self.credit, 0)
        self.delivery_count = advance(self.delivery_count, max(self.credit, 0))
        self.credit = 0
        # It sets `drain`: some clients recognise the answer by that alone.
        self.send_flow(False)
        self.is_draining = False

    def send_flow(self, echo: bool) -> None:
        flow = Flow(
            handle=self.handle,
            delivery_count=self.delivery_count,
            link_credit=max(self.credit, 0),
            available=self.available,
            drain=self.is_draining,
            echo=echo,
        )
        self.session.send_flow(flow)

    def flow_from_receiver(self, flow: Flow) -> None:
        if flow.properties is not None:
            self.flow_properties = flow.properties
        if flow.link_credit is None:
            return
        count = flow.delivery_count
        if count is None:
            # Sent before the receiver got our attach.
            count = self.initial_delivery_count
        under_way = difference(self.delivery_count, count)
        if under_way < 0:
            text = f"flow has seen {count} deliveries of {self.delivery_count}"
            raise LinkFault(INVALID_FIELD, text)
        self.credit = flow.link_credit - under_way
        self.is_draining = flow.drain

    def take_unsettled(self) -> list[SentDelivery]:
        """The link has ended: its owner takes what the receiver has not settled, in order. A later
        disposition of the receiver has no effect.
        """
        taken = list(self.unsettled.values())
        self.unsettled.clear()
        self.session.outgoing_window += len(taken)
        return taken

    def update(self, first: int, last: int, state: Composite | None, settled: bool) -> None:
        """A disposition of the receiver for a range of deliveries."""
        unsettled = self.unsettled
        if not unsettled:
            return
        span = (last - first) & MASK
        if span < len(unsettled):
            wanted = [(first + step) & MASK for step in range(span + 1)]
        else:
            wanted = [known for known in unsettled if (known - first) & MASK <= span]
        if settled and isinstance(state, Accepted):
            self._accepted(wanted)
            return
        for delivery_id in wanted:
            sent = unsettled.get(delivery_id)
            if sent is not None:
                if settled:
                    del unsettled[delivery_id]
                    self.session.outgoing_window += 1
                self.listener.delivery_updated(self, sent, state, settled)

    def _accepted(self, wanted: list[int]) -> None:
        unsettled = self.unsettled
        accepted: list[SentDelivery] = []
        for delivery_id in wanted:
            sent = unsettled.pop(delivery_id, None)
            if sent is not None:
                accepted.append(sent)
        if accepted:
            self.session.outgoing_window += len(accepted)
            self.listener.deliveries_accepted(self, accepted)
