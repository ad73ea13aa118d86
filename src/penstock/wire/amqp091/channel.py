"""One channel as the wire sees it: is it open, and which frame may come next."""

from penstock.formats.amqp091_frames import BODY_FRAME, HEADER_FRAME, METHOD_FRAME
from penstock.wire.amqp091.states import ChannelState


class Channel:
    """Held by its connection from channel.open to the end of the close handshake.

    A content that is not complete in one read is assembled here.
    """

    def __init__(self, number: int, state: ChannelState) -> None:
        self.number: int = number
        self.state: ChannelState = state
        # Checked by the frame loop: open, and no content partly received.
        self.expects_method: bool = state is ChannelState.OPEN
        # We have sent an orderly close; the listener is told of its end with close-ok.
        self.tell_when_closed: bool = False

        # The content in the making.
        self.expected_frame: int = METHOD_FRAME
        self.method: bytes = b""
        self.header: bytes = b""
        self.body_size: int = 0
        self.body_received: int = 0
        # What it holds of the connection's allowance for unfinished contents.
        self.held: int = 0
        # A buffer, not a list of fragments: a peer that sends fragments of one byte must not cost
        # forty bytes for each.
        self.body: bytearray = bytearray()

    def opened(self) -> None:
        self.state = ChannelState.OPEN
        self.expects_method = True

    def closing(self) -> None:
        self.state = ChannelState.CLOSING
        self.silence()

    def silence(self) -> None:
        """Leave the fast path and drop the partly received content."""
        self.content_done()
        self.expects_method = False

    def content_started(self, method: bytes) -> None:
        self.method = method
        self.expected_frame = HEADER_FRAME
        self.expects_method = False

    def header_arrived(self, header: bytes, body_size: int) -> None:
        self.header = header
        self.body_size = body_size
        self.body_received = 0
        self.expected_frame = BODY_FRAME

    def content_done(self) -> None:
        self.expected_frame = METHOD_FRAME
        self.expects_method = self.state is ChannelState.OPEN
        self.method = b""
        self.header = b""
        self.body_received = 0
        if self.body:
            self.body = bytearray()
