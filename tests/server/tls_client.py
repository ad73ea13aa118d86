"""Bare TLS sockets, and a broker that remembers its events."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from penstock import Broker
from penstock.broker.events import Event, EventKind
from penstock.server.tls_settings import TlsConfiguration
from penstock.wire.amqp091.limits import Limits
from tests.behaviour.raw import RawConnection
from tests.server.opened import remember
from tests.server.raw_client import connect, wait_for
from tests.support.recorded_events import RecordedEvents

HOST = "127.0.0.1"


class TlsBroker:
    """Held by one test."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.events = RecordedEvents()
        broker._call(lambda node, now: setattr(node.container, "events", self.events))

    @property
    def port(self) -> int:
        return self.broker.tls_port

    def failures(self) -> list[Event]:
        return [
            event
            for event in list(self.events.events)
            if event.kind is EventKind.TLS_HANDSHAKE_FAILED
        ]

    def reason(self) -> str:
        """Why the only handshake that failed did; waits for it."""
        wait_for(self.failures)
        [failed] = self.failures()
        return failed.reason


@contextmanager
def tls_broker(
    tls: TlsConfiguration, limits: Limits | None = None, connections_max: int = 1000
) -> Iterator[TlsBroker]:
    with Broker(tls=tls, limits=limits, connections_max=connections_max) as broker:
        yield TlsBroker(broker)


def secure(context: ssl.SSLContext, port: int) -> ssl.SSLSocket:
    """A socket behind its handshake. Told when the broker cuts it off without taking leave."""
    raw = connect(HOST, port)
    secured = context.wrap_socket(raw, server_hostname=HOST, suppress_ragged_eofs=False)
    remember(secured)
    return secured


def opened(context: ssl.SSLContext, port: int, plain: RawConnection | None = None) -> RawConnection:
    """A logged-in connection with a channel, over TLS."""
    connection = plain or RawConnection(HOST, port)
    connection.socket = context.wrap_socket(
        connection.socket, server_hostname=HOST, suppress_ragged_eofs=False
    )
    remember(connection.socket)
    connection.open("guest", "guest", "/")
    connection.open_channel(1)
    return connection


def ended_in_order(raw: socket.socket) -> bool:
    """TLS's own goodbye, not a cut and not a reset."""
    while raw.recv(65536):
        pass
    return True
