"""A session: links by their handles, and dispositions over all of them (specification 2.5).

Its windows are in `window`, what may be sent when in `states`; `connection` sends.

Invariant: a link is in `links` from attach to the end of the detach handshake, by our handle, and
in `receivers` or `senders` by the peer's for as long as the peer may mention it.
"""

from struct import Struct
from typing import Final

from penstock.wire.amqp10.framing import AMQP_FRAME, encode_frame
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.link import RECEIVER, SENDER, Link
from penstock.wire.amqp10.performatives_generated import Accepted, Begin, Disposition
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.sending import SendingLink
from penstock.wire.amqp10.states import SessionState
from penstock.wire.amqp10.values import Composite
from penstock.wire.amqp10.window import SessionWindow
from penstock.wire.outgoing import Outgoing

# The one outcome that nearly every delivery has.
OUTCOME_ACCEPTED: Final = Accepted()
# A disposition of ours: receiver, first, last, settled, accepted.
_ACCEPT: Final = Struct(">IBBH8sIBI5s")
_ACCEPT_SIZE: Final = _ACCEPT.size
_ACCEPT_HEAD: Final = b"\x00\x53\x15\xc0\x11\x05\x41\x70"
_ACCEPT_TAIL: Final = b"\x41\x00\x53\x24\x45"


class Session(SessionWindow):
    """Held by its connection from begin to the end of the end handshake, and by the owner."""

    def __init__(self, channel: int, outgoing: Outgoing, limits: Limits, frame_max: int) -> None:
        super().__init__(channel, outgoing, limits, frame_max)
        self.state: SessionState = SessionState.UNMAPPED
        # The peer's number for it; -1 while there is none.
        self.remote_channel: int = -1
        self.handle_max: int = limits.handle_max
        self.remote_handle_max: int = 0xFFFF_FFFF
        self.remote: Begin | None = None
        # By our handle.
        self.links: dict[int, Link] = {}
        # By the peer's handle.
        self.receivers: dict[int, ReceivingLink] = {}
        self.senders: dict[int, SendingLink] = {}
        self.tell_when_ended: bool = False

    def begun_by_peer(self, begin: Begin) -> None:
        super().begun_by_peer(begin)
        self.remote = begin
        self.remote_handle_max = begin.handle_max

    def by_remote_handle(self, handle: int) -> Link | None:
        receiver = self.receivers.get(handle)
        if receiver is not None:
            return receiver
        return self.senders.get(handle)

    def free_handle(self) -> int:
        """The lowest of ours that is not in use, or -1."""
        for handle in range(len(self.links) + 1):
            if handle not in self.links:
                return handle if handle <= self.remote_handle_max else -1
        return -1

    def map_remote(self, link: Link) -> None:
        if isinstance(link, ReceivingLink):
            self.receivers[link.remote_handle] = link
        elif isinstance(link, SendingLink):
            self.senders[link.remote_handle] = link

    def forget(self, link: Link) -> None:
        self.links.pop(link.handle, None)
        if link.is_receiver:
            self.receivers.pop(link.remote_handle, None)
        else:
            self.senders.pop(link.remote_handle, None)

    def all_links(self) -> list[Link]:
        """Also those that have a handle on one side only."""
        found: list[Link] = list(self.links.values())
        for receiver in self.receivers.values():
            if receiver.handle < 0:
                found.append(receiver)
        for sender in self.senders.values():
            if sender.handle < 0:
                found.append(sender)
        return found

    def silence(self) -> None:
        """Ended, or its connection gone: nothing is sent or handled any more."""
        self.is_open = False
        for link in self.all_links():
            link.silence()

    def settle(self, first: int, last: int, state: Composite | None) -> None:
        """We settle deliveries that we received, with this outcome, and send the disposition."""
        for link in self.receivers.values():
            if link.unsettled:
                link.forget_range(first, last)
        if not self.is_open:
            return
        if state is OUTCOME_ACCEPTED:
            self.outgoing.push(
                _ACCEPT.pack(
                    _ACCEPT_SIZE,
                    2,
                    AMQP_FRAME,
                    self.channel,
                    _ACCEPT_HEAD,
                    first,
                    0x70,
                    last,
                    _ACCEPT_TAIL,
                )
            )
            return
        self._say(Disposition(RECEIVER, first, last, settled=True, state=state))

    def say_state(self, first: int, last: int, state: Composite) -> None:
        """Our outcome for deliveries that we received, without settling them: of a link whose
        rcv-settle-mode is second, where the sender settles first.
        """
        if self.is_open:
            self._say(Disposition(RECEIVER, first, last, settled=False, state=state))

    def settle_sent(self, first: int, last: int, state: Composite | None) -> None:
        """We settle deliveries that we sent, after the receiver has sent its outcome."""
        for link in self.senders.values():
            unsettled = link.unsettled
            span = (last - first) & 0xFFFF_FFFF
            for known in [key for key in unsettled if (key - first) & 0xFFFF_FFFF <= span]:
                del unsettled[known]
                self.outgoing_window += 1
        if self.is_open:
            self._say(Disposition(SENDER, first, last, settled=True, state=state))

    def _say(self, disposition: Disposition) -> None:
        if disposition.last == disposition.first:
            disposition.last = None
        self.outgoing.push(encode_frame(AMQP_FRAME, self.channel, disposition.encode()))
