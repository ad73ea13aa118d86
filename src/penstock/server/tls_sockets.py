"""TLS between a socket and what reads and writes it.

The event loop has TLS of its own. This one is here because a broker needs what that one hides: how
much is unsent, an orderly end in two steps, who failed a handshake and why, and TLS that begins in
the middle of a connection. Everything that one read brought is decrypted into one piece, and
everything that one tick says is encrypted into one write, so it takes about as long (ADR 0021).

Invariants: nothing is kept here but an incomplete record. What was read is decrypted and passed on
before the call returns, what is written is encrypted at once and waits in the socket's own buffer.
So back-pressure is the socket's, in both directions.
"""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.server.handshake_turns import HandshakeStep
from penstock.server.write_limit import WriteLimit
from penstock.wire.sniff import Announced, sniff

if TYPE_CHECKING:
    from penstock.server.sockets import SocketProtocol

# The largest record that TLS has. One call decrypts or encrypts one.
RECORD_BYTES: Final = 16 * 1024
# OpenSSL's buffers never shrink, and every connection has two: they are given no more than this at
# once, so that a connection which was busy for a moment does not hold a megabyte for ever.
SLICE_BYTES: Final = 64 * 1024
# What a client says in its handshake, its certificates included, is a few kilobytes. One that says
# more than this before the handshake is over is cut off.
HANDSHAKE_BYTES_MAX: Final = 256 * 1024


class TlsOwner(ABC):
    """Who hears of handshakes: the door that TLS clients come through."""

    @abstractmethod
    def handshake_began(self, protocol: TlsProtocol) -> bool:
        """False refuses the peer."""

    @abstractmethod
    def handshake_goes_on(self, protocol: TlsProtocol) -> None:
        """The peer has said something: call `shake_hands`, when it is its turn."""

    @abstractmethod
    def handshake_completed(self, protocol: TlsProtocol) -> None:
        """Its `agreed` now tells what was agreed on."""

    @abstractmethod
    def handshake_failed(self, protocol: TlsProtocol, reason: str) -> None:
        """The peer was told and the socket is shut down for writing."""

    @abstractmethod
    def gone(self, protocol: TlsProtocol) -> None:
        """The socket of a peer that never completed its handshake is closed."""


class TlsTransport(asyncio.Transport):
    """What the inner protocol takes for its socket."""

    def __init__(self, protocol: TlsProtocol, raw: asyncio.Transport) -> None:
        super().__init__()
        self._protocol = protocol
        self._raw = raw

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._protocol.encrypt(cast("bytes", data))

    def write_eof(self) -> None:
        self._protocol.finish()

    def close(self) -> None:
        self._protocol.end_tls()
        self._raw.close()

    def abort(self) -> None:
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def get_extra_info(self, name: str, default: object = None) -> Any:
        return self._raw.get_extra_info(name, default)


class TlsProtocol(asyncio.Protocol, HandshakeStep):
    """What the event loop calls for a socket that speaks TLS. Held by the loop for as long as the
    socket is open, and by its owner until the handshake is over.
    """

    __slots__ = (
        "_handshake_bytes",
        "_incoming",
        "_is_deaf",
        "_is_secured",
        "_limit",
        "_outgoing",
        "_owner",
        "agreed",
        "inner",
        "is_upgrade",
        "raw",
        "transport",
    )

    raw: asyncio.Transport
    transport: TlsTransport

    def __init__(
        self, owner: TlsOwner, context: ssl.SSLContext, inner: SocketProtocol | None = None
    ) -> None:
        """`inner` is who has read and written the socket in the clear, when it did. For a socket
        that speaks TLS from its first octet the owner names it when the handshake is over.
        """
        self._owner = owner
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self.agreed = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.inner = inner
        self.is_upgrade = inner is not None
        self._is_secured = False
        # Nothing more is decrypted: what comes is discarded.
        self._is_deaf = False
        self._handshake_bytes = 0
        self._limit = WriteLimit()

    @property
    def peer(self) -> tuple[str, int]:
        name = self.raw.get_extra_info("peername") or ("", 0)
        return str(name[0]), int(name[1])

    @property
    def has_spoken(self) -> bool:
        return self._handshake_bytes > 0

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports are such without being derived from it.
        self.raw = cast("asyncio.Transport", transport)
        self.transport = TlsTransport(self, self.raw)
        if not self._owner.handshake_began(self):
            self._is_deaf = True
            self.raw.write_eof()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if self._is_secured:
            if len(data) <= SLICE_BYTES:
                self._incoming.write(data)
                self._decrypt([])
            else:
                self._decrypt_slices(data)
            return
        is_first = not self._handshake_bytes
        self._handshake_bytes += len(data)
        if is_first and not _begins_tls(data):
            self._fail(_told_in_the_clear(data))
            return
        if self._handshake_bytes > HANDSHAKE_BYTES_MAX:
            self._fail(f"more than {HANDSHAKE_BYTES_MAX} bytes before the handshake was completed")
            return
        self._incoming.write(data)
        self._owner.handshake_goes_on(self)

    def eof_received(self) -> bool:
        if self._incoming.pending:
            # Its last words, which may say why it goes.
            self.shake_hands()
        if not self._is_secured and not self._is_deaf:
            self._fail("the client has closed the connection before the handshake was completed")
        return False

    def pause_writing(self) -> None:
        if self.inner is not None and self._is_secured:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        if self.inner is not None and self._is_secured:
            self.inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_secured:
            if not self._is_deaf:
                self._is_deaf = True
                reason = "the connection was lost before the handshake was completed"
                self._owner.handshake_failed(self, reason if exc is None else f"{reason}: {exc}")
            self._owner.gone(self)
        self._is_deaf = True
        if self.inner is not None:
            self.inner.connection_lost(exc)

    # What the owner says.

    def attend(self, inner: SocketProtocol) -> None:
        """From now on `inner` reads and writes."""
        self.inner = inner
        inner.connection_made(self.transport)

    def give_up(self, reason: str) -> None:
        """The handshake takes too long, its place is needed, or its end is not good enough."""
        if not self._is_deaf:
            self._is_secured = False
            self._fail(reason)

    # What the inner protocol says, through its transport.

    def encrypt(self, data: bytes) -> None:
        if self._is_deaf or not self._is_secured:
            return
        outgoing, raw, write = self._outgoing, self.raw, self.agreed.write
        try:
            if len(data) <= RECORD_BYTES:
                write(data)
            else:
                with memoryview(data) as view:
                    for start in range(0, len(data), RECORD_BYTES):
                        write(view[start : start + RECORD_BYTES])
                        if outgoing.pending >= SLICE_BYTES:
                            raw.write(outgoing.read())
        except ssl.SSLError:
            raw.abort()
            return
        raw.write(outgoing.read())
        if self._limit.is_exceeded(len(data), raw.get_write_buffer_size()):
            raw.abort()

    def finish(self) -> None:
        """Nothing more is said; what the peer still says is discarded."""
        self.end_tls()
        self.raw.write_eof()

    def end_tls(self) -> None:
        """Take leave of the peer, so that it knows that nothing was cut off."""
        if self._is_deaf:
            return
        self._is_deaf = True
        if not self._is_secured:
            return
        try:
            self.agreed.unwrap()
        except ssl.SSLError:
            # Mostly that the peer has not taken leave yet, for which nobody waits.
            pass
        self._send_pending()

    # TLS.

    def shake_hands(self) -> None:
        if self._is_secured or self._is_deaf:
            return
        try:
            self.agreed.do_handshake()
        except ssl.SSLWantReadError:
            self._send_pending()
            return
        except ssl.SSLError as error:
            self._fail(handshake_reason(error))
            return
        self._send_pending()
        self._is_secured = True
        self._owner.handshake_completed(self)
        if self._incoming.pending and not self._is_deaf:
            # What the client says first came with the end of its handshake.
            self._decrypt([])

    def _decrypt_slices(self, data: bytes) -> None:
        """All of a long read, into one piece."""
        found: list[bytes] = []
        incoming = self._incoming
        with memoryview(data) as view:
            last = (len(data) - 1) // SLICE_BYTES * SLICE_BYTES
            for start in range(0, last, SLICE_BYTES):
                incoming.write(view[start : start + SLICE_BYTES])
                self._read_records(found)
            incoming.write(view[last:])
        self._decrypt(found)

    def _decrypt(self, found: list[bytes]) -> None:
        is_over = self._read_records(found)
        if found and self.inner is not None:
            self.inner.data_received(found[0] if len(found) == 1 else b"".join(found))
        if self._outgoing.pending and not self._is_deaf:
            # TLS's own answers: to a change of keys, or an alert.
            self._send_pending()
            if self._limit.is_exceeded(0, self.raw.get_write_buffer_size()):
                self.raw.abort()
        if is_over and not self.raw.is_closing() and not self._is_deaf:
            # The peer has taken leave, or said what cannot be decrypted.
            self.end_tls()
            self.raw.close()

    def _read_records(self, found: list[bytes]) -> bool:
        """Whether nothing more is to come."""
        incoming, read = self._incoming, self.agreed.read
        try:
            while incoming.pending:
                data = read(RECORD_BYTES)
                if not data:
                    return True
                found.append(data)
        except ssl.SSLWantReadError:
            # The rest of a record is still under way.
            return False
        except ssl.SSLError:
            return True
        return False

    def _send_pending(self) -> None:
        if self._outgoing.pending and not self.raw.is_closing():
            self.raw.write(self._outgoing.read())

    def _fail(self, reason: str) -> None:
        self._is_deaf = True
        # The alert that says why, if there is one.
        self._send_pending()
        if not self.raw.is_closing():
            if self.is_upgrade:
                # Its connection is told of the end.
                self.raw.close()
            else:
                self.raw.write_eof()
        self._owner.handshake_failed(self, reason)


def _begins_tls(data: bytes) -> bool:
    return sniff(data) is Announced.TLS or data == b"\x16"


def _told_in_the_clear(data: bytes) -> str:
    announced = sniff(data)
    if announced in {Announced.UNDECIDED, Announced.UNKNOWN}:
        return "the client does not speak TLS"
    return (
        f"the client does not speak TLS but {announced.value} in the clear; configure it to use "
        "TLS (amqps://), or the port for connections without TLS"
    )


def handshake_reason(error: ssl.SSLError) -> str:
    """Why a handshake has failed, with what an operator can do about it where that is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate was refused: {error.verify_message}"
    name = error.reason or ""
    told = _REASONS.get(name)
    if told is not None:
        return told
    if "ALERT" in name:
        alert = name.partition("ALERT_")[2].replace("_", " ").lower()
        return f"the client has refused the handshake: {alert}"
    return name.replace("_", " ").lower() or str(error)


_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate, and one is required",
    "UNSUPPORTED_PROTOCOL": "the client offers no TLS version that the broker accepts "
    "(tls.minimum_version)",
    "NO_SHARED_CIPHER": "the client and the broker have no cipher in common (tls.ciphers)",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the broker's certificate: its authority "
    "is unknown to the client",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not trust the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client refuses the broker's certificate: it has "
    "expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not trust the broker's certificate",
}
