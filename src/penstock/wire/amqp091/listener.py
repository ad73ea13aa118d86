"""The callbacks of a connection: the interface between the wire and the dialect or client."""

from mypy_extensions import mypyc_attr

from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.methods_generated import Method


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionListener:
    """Implemented by the server's dialect and by the client's conversation.

    The first four may raise `ChannelFault` or `ConnectionFault`, and `Malformed` for what the wire
    passed on undecoded; the connection answers the peer. Any other exception is a defect and leaves
    `Connection.receive`.
    """

    def protocol_agreed(self) -> None:
        """Server only: the peer's protocol header is right; send connection.start."""

    def method_received(self, channel: int, method: Method) -> None:
        """Every method without content but basic.ack, after the wire's own checks.

        The listener answers all of them except connection.close, channel.close and their -ok.
        """
        raise NotImplementedError

    def content_received(self, channel: int, method: bytes, header: bytes, body: bytes) -> None:
        """A whole content: payloads of its method frame and header frame, and the joined body."""
        raise NotImplementedError

    def acknowledged(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        """A basic.ack: of deliveries when we are the server, of publishes when the client."""
        raise NotImplementedError

    def channel_ended(self, channel: int, fault: ChannelFault | None) -> None:
        """Once per opened channel, unless the connection ends first; drop the channel's state.

        After a fault of ours it comes when channel.close is sent, after an orderly close of ours
        (reply code 200) when the peer has answered. `fault.from_peer` says which side gave the
        reason; None stands for an orderly close by either side. The channel's number is free again
        when the close handshake is over, see `Connection.channel_known`.
        """
        raise NotImplementedError

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        """Once, and the last call: all channels are gone with it. Reasons as for channels."""
        raise NotImplementedError
