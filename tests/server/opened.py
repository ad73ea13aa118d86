"""What tests of this folder have opened: raw sockets and pika's connections."""

import contextlib
import socket

import pika
import pika.exceptions

_SOCKETS: list[socket.socket] = []
_CONNECTIONS: list[pika.BlockingConnection] = []


def remember(raw: socket.socket) -> socket.socket:
    _SOCKETS.append(raw)
    return raw


def pika_connection(url: str) -> pika.BlockingConnection:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    _CONNECTIONS.append(connection)
    return connection


def close_all() -> None:
    for raw in _SOCKETS:
        raw.close()
    _SOCKETS.clear()
    for connection in _CONNECTIONS:
        with contextlib.suppress(pika.exceptions.AMQPError, OSError):
            connection.close()
    _CONNECTIONS.clear()
