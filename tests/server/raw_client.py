"""A client that does what no library would: stays silent, reads nothing, says half a word."""

import socket
import time

from tests.server.opened import remember

HEADER = b"AMQP\x00\x00\x09\x01"


def connect(host: str, port: int, receive_buffer: int | None = None) -> socket.socket:
    raw = remember(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    if receive_buffer is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    raw.settimeout(60)
    raw.connect((host, port))
    return raw


def seconds_until_closed(raw: socket.socket) -> float:
    """How long the broker kept the connection, whatever it said meanwhile."""
    begun = time.monotonic()
    while True:
        try:
            if not raw.recv(65536):
                return time.monotonic() - begun
        except ConnectionResetError:
            return time.monotonic() - begun


def wait_for(condition: object, seconds: float = 60.0) -> None:
    """Poll until a callable is true, or fail; a loaded machine has all the time it needs."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)
