"""uvicorn's HTTP/1.1 protocol with additions: sendfile, and limits on sockets and on waiting.

ASGI cannot express "send this part of a file", and copying segments through Python costs ten times
as much as sendfile. A response finds the protocol in its scope and lets the event loop send the
bytes; h11 is told how many there were.
"""

from __future__ import annotations

import asyncio
import json
import sys
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from penstock.server.http.careful_parser import CarefulParser
from penstock.server.http.problems import Problem
from penstock.server.http.rest_of_body import DROPPED_BYTES_MAX, AnsweringTransport, RestOfBody
from penstock.server.http.settings import (
    FIRST_REQUEST_SECONDS,
    HEADER_BYTES_MAX,
    HEADER_LINES_MAX,
    SOCKETS_MAX,
    WRITE_SECONDS,
)

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from uvicorn.config import Config
    from uvicorn.server import ServerState

# The name in the scope's state under which a response finds the protocol.
PROTOCOL: Final = "penstock.protocol"
# A reader that does not take a piece in `WRITE_SECONDS` is disconnected: it holds a file open.
PIECE_BYTES: Final = 16 * 1024 * 1024
# How long a peer may take to read a refusal, before the connection is closed.
LAST_WORDS_SECONDS: Final = 5.0
# How much of an error's text is sent back.
REASON_LENGTH_MAX: Final = 300

log = structlog.get_logger()


class _Octets:
    """Stands for bytes that are sent elsewhere; h11 only needs their number."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count


class FileSendingProtocol(H11Protocol):
    """One TCP connection of the HTTP server. Held by its transport."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        said: bytes = b"",
    ) -> None:
        """`said` is what was read from the socket before."""
        super().__init__(config, server_state, {**app_state, PROTOCOL: self}, _loop)
        self.conn = CarefulParser()
        self._said = said
        # Closes the connection unless the whole head of a request comes before.
        self._patience: asyncio.TimerHandle | None = None
        # Since when it has had no request under way; for choosing one to close.
        self.idle_since = 0.0
        # Once the last answer was given before its request had come as a whole.
        self._rest: RestOfBody | None = None
        # How much came of the body of a request that was answered already, where others may follow.
        self._late_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        if len(self.connections) > SOCKETS_MAX:
            self._make_room()
        self._wait_for_head()
        if self._said:
            self.data_received(self._said)

    def _make_room(self) -> None:
        idle = [one for one in self.connections if isinstance(one, FileSendingProtocol)]
        idle = [one for one in idle if not one.is_busy()]
        if idle:
            min(idle, key=_idle_since).transport.abort()
        else:
            self.transport.abort()

    def is_busy(self) -> bool:
        """Whether a request is under way."""
        return bool(self.cycle) and not self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_patience()
        if self._rest is not None:
            self._rest.end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._rest is not None:
            self._rest.drop(len(data))
            return
        if self._is_answered_early():
            self._late_bytes += len(data)
            if self._late_bytes > DROPPED_BYTES_MAX:
                self.transport.abort()
                return
        if not self.is_busy() and self._patience is None:
            self._wait_for_head()
        try:
            super().data_received(data)
        except Exception:
            # An error in Penstock or in the libraries; only this connection is affected.
            log.exception("HTTP connection failed", peer=shown_peer(self.client))
            self.transport.abort()

    def handle_events(self) -> None:
        super().handle_events()
        if self.is_busy():
            self._end_patience()
            self._answer_patiently(self.cycle)

    def _answer_patiently(self, cycle: RequestResponseCycle) -> None:
        """So that uvicorn does not close it while the client still sends."""
        if cycle.transport is self.transport:
            patient = AnsweringTransport(self.transport, self._end_answered)
            cycle.transport = cast("asyncio.Transport", patient)

    def on_response_complete(self) -> None:
        self.idle_since = self.loop.time()
        self._late_bytes = 0
        super().on_response_complete()

    def _is_answered_early(self) -> bool:
        """Whether the client is still sending the body of a request that was answered."""
        return self._is_body_coming() and not self.is_busy()

    def _is_body_coming(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY

    def _end_answered(self) -> None:
        if self._is_body_coming():
            self._drop_the_rest()
        else:
            self.transport.close()

    def _drop_the_rest(self) -> None:
        if self._rest is None and not self.transport.is_closing():
            self._end_patience()
            self._rest = RestOfBody(self.transport, self.loop)
            self.flow.resume_reading()

    # Patience.

    def _wait_for_head(self) -> None:
        self._patience = self.loop.call_later(FIRST_REQUEST_SECONDS, self._lose_patience)

    def _end_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience(self) -> None:
        self._patience = None
        # A WebSocket has taken the transport over when it has another protocol.
        if self.is_busy() or self.transport.get_protocol() is not self:
            return
        if self._is_answered_early():
            # A second answer would be taken for that of the next request.
            self.transport.abort()
            return
        seconds = int(FIRST_REQUEST_SECONDS)
        self.end_with(
            408,
            f"no complete request was received within {seconds} s",
            "Send the request again, faster.",
        )
        self.transport.close()
        self.loop.call_later(LAST_WORDS_SECONDS, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        # This name is uvicorn's.
        if self.transport.get_write_buffer_size():
            # The peer does not read its answer either.
            self.transport.abort()
        else:
            self.transport.close()

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            # In the middle of something that had gone wrong already.
            self.transport.abort()

    # Ends.

    def send_400_response(self, msg: str) -> None:
        """As uvicorn's, in our form. Called while the error of the parser is being handled."""
        error = sys.exc_info()[1]
        status = 400
        if isinstance(error, h11.RemoteProtocolError):
            status = error.error_status_hint
            # h11 appends what it could not read.
            text = str(error).partition(": bytearray")[0]
            msg = f"invalid HTTP/1.1 request: {text}"
        self.end_with(
            status,
            msg[:REASON_LENGTH_MAX],
            f"Send HTTP/1.1 with headers of at most {HEADER_BYTES_MAX} bytes and "
            f"{HEADER_LINES_MAX} lines.",
        )
        self._drop_the_rest()

    def end_with(self, status: int, reason: str, what_to_do: str) -> None:
        """Send a last answer on this connection, if that is still possible. The caller closes it."""
        cycle = self.cycle
        if self.is_busy():
            is_answered = cycle.response_started
            # The result of the request is not sent any more.
            cycle.disconnected = True
            cycle.message_event.set()
            if is_answered:
                # The peer must not take what it has for the whole answer.
                self.transport.abort()
                return
        if not self.transport.is_closing():
            self.transport.write(plain_answer(status, reason, what_to_do))

    async def send_file(self, file: BinaryIO, start: int, count: int) -> bool:
        """Send a part of a file after the response's headers; False when the peer is gone."""
        end = start + count
        while start < end:
            size = min(PIECE_BYTES, end - start)
            self.conn.send_with_data_passthrough(h11.Data(data=cast(bytes, _Octets(size))))
            try:
                sent = await asyncio.wait_for(
                    self.loop.sendfile(self.transport, file, start, size), WRITE_SECONDS
                )
            except (OSError, RuntimeError, TimeoutError):
                # The loop raises RuntimeError for a transport that is closing.
                sent = 0
            if sent != size:
                await self.give_up()
                return False
            start += size
        return True

    async def give_up(self) -> None:
        """The response cannot be completed: the peer must see that, not a short body."""
        self.transport.abort()
        # So that uvicorn knows of it before the response returns.
        await asyncio.sleep(0)


def protocol_of(scope: MutableMapping[str, Any]) -> FileSendingProtocol:
    found = scope["state"][PROTOCOL]
    assert isinstance(found, FileSendingProtocol)
    return found


def plain_answer(status: int, reason: str, what_to_do: str) -> bytes:
    """A problem as octets, for where there is no request to answer."""
    body = json.dumps(Problem(status, reason, what_to_do).body()).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        "content-type: application/json\r\n"
        f"content-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body


def _idle_since(connection: FileSendingProtocol) -> float:
    return connection.idle_since


def shown_peer(client: tuple[str, int] | None) -> str:
    return "" if client is None else f"{client[0]}:{client[1]}"
