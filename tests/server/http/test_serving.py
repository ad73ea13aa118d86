"""The HTTP server's loop comes to its end: nothing that was accepted stays open."""

from __future__ import annotations

import gc
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.applications import Starlette

from penstock.server.http.handover import Handover
from penstock.server.http.serving import serve
from penstock.server.tls import Certificates
from penstock.server.tls_settings import ListenerTls
from tests.support.certificates import authority, signed_by

# The server waits for two seconds for what is under way; a busy machine for longer.
END_SECONDS = 60
FRAME_MAX = 131_072


class Door:
    """Gives sockets to an HTTP server with TLS, in a thread of its own. Held by a test."""

    def __init__(self, tls: Certificates) -> None:
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._handover = Handover(self._begin)
        self._thread = threading.Thread(target=self._serve)

    def _begin(self) -> None:
        self._thread.start()

    def _serve(self) -> None:
        serve(self._handover, self._tls, Starlette(), FRAME_MAX)

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """A client's socket, and the server's, which is handed over."""
        client = socket.create_connection(self._listening.getsockname(), END_SECONDS)
        accepted, _ = self._listening.accept()
        accepted.setblocking(False)
        self._handover.give(accepted, b"")
        return client, accepted

    def end(self) -> None:
        self._handover.end()
        self._thread.join(END_SECONDS)
        assert not self._thread.is_alive()
        self._listening.close()


@contextmanager
def served_tls(folder: Path) -> Iterator[tuple[Door, ssl.SSLContext]]:
    ours = authority(folder, "ours")
    signed_by(ours, folder, "server")
    files = ListenerTls(folder / "server.pem", folder / "server.key")
    door = Door(Certificates(files, "HTTP"))
    try:
        yield door, ssl.create_default_context(cafile=ours.file)
    finally:
        door.end()
        # An unclosed transport warns when it is collected, and warnings are errors.
        gc.collect()


def test_a_handshake_that_is_under_way_at_the_end_is_given_up(tmp_path: Path) -> None:
    with served_tls(tmp_path) as (door, trusted):
        first, _ = door.connect()
        with trusted.wrap_socket(first, server_hostname="127.0.0.1"):
            client, accepted = door.connect()
            # The beginning of a hello.
            client.send(b"\x16\x03\x01")
    assert accepted.fileno() == -1
    client.close()


def test_a_client_that_does_not_end_tls_is_cut_off_at_the_end(tmp_path: Path) -> None:
    with served_tls(tmp_path) as (door, trusted):
        raw, accepted = door.connect()
        client = trusted.wrap_socket(raw, server_hostname="127.0.0.1")
        # The server has heard the whole handshake when it answers.
        client.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 404")
    assert accepted.fileno() == -1
    client.close()
