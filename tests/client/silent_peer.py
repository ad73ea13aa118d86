"""A TLS peer that says what it was told to and nothing else: it does not even take leave."""

import contextlib
import socket
import ssl
import threading
from typing import Self

ACCEPT_SECONDS = 0.05
READ_BYTES = 4096


class SilentPeer:
    """Takes connections in a thread of its own and holds them until the test ends, open and unread.
    Held by one test as a context manager. Without a context it does not shake hands either.
    """

    def __init__(self, context: ssl.SSLContext | None, greeting: bytes, answer: bytes) -> None:
        self._context = context
        # Sent at once after the handshake, and after the client's first bytes.
        self._greeting = greeting
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(ACCEPT_SECONDS)
        self.port: int = self._listener.getsockname()[1]
        self._held: list[socket.socket] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="silent peer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._listener.close()
        for held in self._held:
            held.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                accepted, _ = self._listener.accept()
                self._held.append(accepted)
                # A client that gives up meanwhile is what the tests are about.
                with contextlib.suppress(OSError):
                    self._talk(accepted)

    def _talk(self, accepted: socket.socket) -> None:
        if self._context is None:
            return
        secure = self._context.wrap_socket(accepted, server_side=True)
        self._held.append(secure)
        if self._greeting:
            secure.sendall(self._greeting)
        if self._answer:
            secure.recv(READ_BYTES)
            secure.sendall(self._answer)
