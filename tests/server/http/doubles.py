"""Stand-ins for the broker's side of a WebSocket bridge, and a relay that lets pika speak over one."""

import asyncio
import contextlib
import socket
import threading
from typing import Final, cast

import websockets.exceptions
from websockets import Subprotocol
from websockets.sync.client import ClientConnection, connect

from penstock.client.conversation import Conversation
from penstock.client.events import Blocked, Opened, Replied
from penstock.client.uri import Address
from penstock.dialects.connection import Connection
from penstock.dialects.encryption import Encryption
from penstock.node.node import Node
from penstock.server.health import Health
from penstock.server.http.line import BrokerLine
from penstock.server.server import Server
from penstock.wire.outgoing import Outgoing
from penstock.world.clock import Clock
from penstock.world.network import Transport

AMQP: Final = (Subprotocol("amqp"),)
# Only a broker that never answers meets it.
HEAR_SECONDS: Final = 30


class HeldOutgoing:
    def __init__(self) -> None:
        self._is_writable = True

    def set_writable(self, writable: bool) -> None:
        self._is_writable = writable

    def is_writable(self) -> bool:
        return self._is_writable


class HeldConnection:
    def __init__(self) -> None:
        self.outgoing = HeldOutgoing()


class OneConnectionNode:
    """Takes one connection, or none."""

    def __init__(self, takes: bool = True) -> None:
        self.connection = HeldConnection() if takes else None

    def connected(
        self,
        transport: Transport,
        host: str,
        local: bool,
        now: int,
        port: int,
        encryption: Encryption | None,
        mechanisms: tuple[str, ...] | None,
    ) -> Connection | None:
        return cast("Connection | None", self.connection)


class HearingServer:
    """Keeps what a connection was given."""

    def __init__(self, node: OneConnectionNode) -> None:
        self.node = node
        self.websocket_mechanisms: tuple[str, ...] | None = None
        self.heard: list[bytes] = []
        self.lost_count = 0

    def now(self) -> int:
        return 0

    def schedule_flush(self) -> None:
        pass

    def writable(self, connection: Connection, is_writable: bool) -> None:
        connection.outgoing.set_writable(is_writable)
        self.schedule_flush()

    def received(self, connection: Connection, data: bytes) -> None:
        self.heard.append(data)

    def lost(self, connection: Connection) -> None:
        self.lost_count += 1


def line_to(server: HearingServer) -> BrokerLine:
    """The broker's loop is the test's own."""
    return BrokerLine(cast("Server", server), asyncio.get_running_loop())


def node_of(server: HearingServer) -> Node:
    return cast("Node", server.node)


class WebSocketRelay:
    """Listens on a port and carries one TCP connection over a WebSocket. Held by a test."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        with client, connect(self._url, subprotocols=AMQP, compression=None) as line:
            back = threading.Thread(target=_carry_back, args=(line, client), daemon=True)
            back.start()
            with contextlib.suppress(OSError, websockets.exceptions.ConnectionClosed):
                while data := client.recv(65_536):
                    line.send(data)
            line.close()
            back.join()

    def close(self) -> None:
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


def _carry_back(line: ClientConnection, client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        for data in line:
            assert isinstance(data, bytes)
            client.sendall(data)
        client.shutdown(socket.SHUT_RDWR)


class WebSocketClient(Transport):
    """The embedded client over a WebSocket, logged in, with channel 1 open. Held by a test, which
    decides what is sent when.
    """

    def __init__(self, line: ClientConnection) -> None:
        self._line = line
        self._written: list[bytes] = []
        self._flush_list: list[Outgoing] = []
        outgoing = Outgoing(self._flush_list, self)
        self._conversation = Conversation(Address(), outgoing)
        self._conversation.start()
        self.hear_until(Opened)
        self._conversation.open_channel()
        self.hear_until(Replied)

    def write(self, data: bytes) -> None:
        self._written.append(data)

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def publish(self, queue: str, body: bytes) -> None:
        self._conversation.publish(1, "", queue, body)

    def said(self) -> bytes:
        while self._flush_list:
            self._flush_list.pop().flush()
        said = b"".join(self._written)
        self._written = []
        return said

    def send(self, data: bytes) -> None:
        self._line.send(data)

    def hear_until(self, kind: type[Opened | Replied | Blocked]) -> None:
        while True:
            said = self.said()
            if said:
                self.send(said)
            heard = self._line.recv(HEAR_SECONDS)
            assert isinstance(heard, bytes)
            if any(isinstance(event, kind) for event in self._conversation.receive(heard, 0)):
                return

    def hang_up(self) -> None:
        """Without a goodbye."""
        self._line.socket.shutdown(socket.SHUT_RDWR)


class QuietConfiguration:
    connections_max = 10


class QuietNode:
    """What health looks at."""

    def __init__(self) -> None:
        self.storage_failure = ""
        self.member = None
        self.is_stopping = False
        self.connections: dict[int, object] = {}
        self.configuration = QuietConfiguration()

    def is_full(self) -> bool:
        return len(self.connections) >= self.configuration.connections_max


class StoppedClock(Clock):
    """Stands until a test moves it."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return self.time


class StillServer:
    """Has completed a tick at 0, and none since."""

    def __init__(self) -> None:
        self.clock = StoppedClock()
        self.health = Health(self.clock)
        self.node = QuietNode()
