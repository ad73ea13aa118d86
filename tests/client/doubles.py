"""Named doubles for client tests: a server made of the wire's server role, wired to a conversation
in memory. The test plays the broker: it sees what the client said and says the answers.
"""

from __future__ import annotations

from penstock.client.conversation import Conversation
from penstock.client.events import Event, Replied
from penstock.client.uri import Address
from penstock.wire.amqp091.connection import Connection
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.methods_generated import Method
from penstock.wire.amqp091.states import Role
from penstock.wire.outgoing import Outgoing
from tests.wire.doubles import GreetingServer, KeptTransport


class Stage:
    """A client and a server; `transfer` carries bytes both ways until both are silent."""

    def __init__(
        self,
        address: Address | None = None,
        limits: Limits | None = None,
        server: GreetingServer | None = None,
    ) -> None:
        self.now = 0
        self.server = server or GreetingServer()
        self.server_transport = KeptTransport()
        self.client_transport = KeptTransport()
        self._flush_list: list[Outgoing] = []
        self.server.connection = Connection(
            Role.SERVER,
            self.server,
            Outgoing(self._flush_list, self.server_transport),
            limits or Limits(),
        )
        self.client = Conversation(
            address or Address(), Outgoing(self._flush_list, self.client_transport), name="test"
        )
        self.client.start()

    def transfer(self, split: int = 1 << 20) -> list[Event]:
        """The client's events; its input arrives in pieces of `split` octets."""
        events: list[Event] = []
        while True:
            while self._flush_list:
                self._flush_list.pop().flush()
            to_client, self.server_transport.written = self.server_transport.written, b""
            to_server, self.client_transport.written = self.client_transport.written, b""
            if not to_client and not to_server:
                return events
            if to_server:
                self.server.connection.receive(to_server, self.now)
            for start in range(0, len(to_client), split):
                events += self.client.receive(to_client[start : start + split], self.now)

    def say(self, channel: int, method: Method) -> list[Event]:
        self.server.connection.send_method(channel, method)
        return self.transfer()

    def say_content(
        self, channel: int, method: Method, body: bytes, properties: BasicProperties | None = None
    ) -> None:
        header = encode_header(len(body), properties or BasicProperties())
        self.server.connection.send_content(channel, method.encode(), header, body)

    def heard(self) -> list[Method]:
        """What the client has said since the last time, without the handshake's contents."""
        methods = self.server.methods()
        self.server.calls.clear()
        return methods


def opened(channels: int = 1) -> Stage:
    """Logged in, with so many channels open and everything said so far forgotten."""
    stage = Stage()
    stage.transfer()
    assert stage.client.opened
    for number in range(1, channels + 1):
        assert stage.client.open_channel()[0] == number
    replies = stage.transfer()
    assert all(isinstance(reply, Replied) for reply in replies)
    stage.heard()
    return stage
