"""A client's socket that speaks TLS and costs the loader as little as it can.

Python's own reads one record with two system calls. Here one read takes what the kernel has and one
write sends a whole chunk, so that the brokers are measured and not their load.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

# The largest record; and what is read from the kernel at once.
RECORD_BYTES = 16_384
READ_BYTES = 1 << 18


class SecureSocket(socket.socket):
    """Held by a session in place of its socket, and used in the same way: blocking with a time-out
    while things are arranged, not blocking afterwards.
    """

    def __init__(self, raw: socket.socket, authority: str, host: str) -> None:
        timeout = raw.gettimeout()
        super().__init__(raw.family, raw.type, raw.proto, fileno=raw.detach())
        self.settimeout(timeout)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=authority)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        # Encrypted and not sent: of what `send` is asked for again.
        self._unsent = memoryview(b"")
        self._shake_hands()

    @property
    def agreed(self) -> str:
        """The version and the cipher."""
        cipher = self._tls.cipher()
        return f"{self._tls.version()} {'' if cipher is None else cipher[0]}"

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                super().sendall(self._outgoing.read())
                self._fill()
        super().sendall(self._outgoing.read())

    def _fill(self) -> bool:
        data = super().recv(READ_BYTES)
        self._incoming.write(data)
        return bool(data)

    def send(self, data: Any, flags: int = 0) -> int:
        """All of it or, as long as the kernel takes no more, `BlockingIOError`. It must be called
        again with the same data then.
        """
        del flags
        if not self._unsent:
            self._unsent = self._encrypted(data)
        while self._unsent:
            self._unsent = self._unsent[super().send(self._unsent) :]
        return len(data)

    def sendall(self, data: Any, flags: int = 0) -> None:
        del flags
        super().sendall(self._encrypted(data))

    def _encrypted(self, data: Any) -> memoryview:
        with memoryview(data) as view:
            for start in range(0, len(view), RECORD_BYTES):
                self._tls.write(view[start : start + RECORD_BYTES])
        return memoryview(self._outgoing.read())

    def recv(self, size: int, flags: int = 0) -> bytes:
        buffer = bytearray(max(size, RECORD_BYTES))
        return bytes(buffer[: self.recv_into(buffer, size, flags)])

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """What was decrypted, 0 at the end. A socket that does not block raises `BlockingIOError`
        while a record is incomplete.
        """
        del nbytes, flags
        with memoryview(buffer) as view:
            while True:
                found = self._decrypt(view)
                if found:
                    return found
                if not self._fill():
                    return 0

    def _decrypt(self, view: memoryview[Any]) -> int:
        found = 0
        try:
            while len(view) - found >= RECORD_BYTES and (
                self._incoming.pending or self._tls.pending()
            ):
                size = self._tls.read(RECORD_BYTES, view[found:])
                if not size:
                    break
                found += int(size)
        except ssl.SSLWantReadError:
            pass
        return found
