"""h11's parser with bounds on what a request may make it do.

h11 bounds the octets that it keeps, not the work: a head of nothing but empty headers, or a body in
chunks of one octet, takes it thousands of times as long as its size suggests, and all other
requests wait meanwhile.

It also accepts requests that another program in front of this one may understand otherwise: two ways
to say where a body ends (request smuggling), and headers that count once but were sent twice. They are
refused.
"""

from __future__ import annotations

import re
from typing import Final

import h11

from penstock.server.http.settings import (
    CHUNK_BYTES_MEAN,
    CHUNKS_FREE,
    HEADER_BYTES_MAX,
    HEADER_LINES_MAX,
)

# As h11 finds it.
_HEAD_END: Final = re.compile(rb"\n\r?\n")
# Headers that decide who asks and from where. A proxy may look at the last one, and we at the first.
_ONCE: Final = (b"authorization", b"content-type", b"origin")
_CHUNKED: Final = b"transfer-encoding"
_LENGTH: Final = b"content-length"
_HTTP_1_1: Final = b"1.1"


class CarefulParser(h11.Connection):
    """The server's side of one HTTP connection. Held by its protocol."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEADER_BYTES_MAX)
        self._chunk_count = 0
        self._body_size = 0

    def next_event(self) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
        """Raises `h11.RemoteProtocolError` when a request exceeds a limit."""
        if self.their_state is h11.IDLE:
            _check_head(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request):
            _check_headers(event)
            self._chunk_count = 0
            self._body_size = 0
        elif isinstance(event, h11.Data):
            self._chunk_count += 1
            self._body_size += len(event.data)
            self._check_chunks()
        return event

    def _check_chunks(self) -> None:
        free = CHUNKS_FREE * CHUNK_BYTES_MEAN
        if self._chunk_count * CHUNK_BYTES_MEAN > self._body_size + free:
            raise h11.RemoteProtocolError(
                f"the chunks of the body are smaller than {CHUNK_BYTES_MEAN} bytes on average"
            )


def _check_headers(request: h11.Request) -> None:
    names = [name for name, _ in request.headers]
    if _CHUNKED in names:
        if _LENGTH in names:
            raise h11.RemoteProtocolError(
                "the request has both Content-Length and Transfer-Encoding; only one of them can say "
                "where the body ends"
            )
        if request.http_version != _HTTP_1_1:
            raise h11.RemoteProtocolError("Transfer-Encoding is not valid before HTTP/1.1")
    for name in _ONCE:
        if names.count(name) > 1:
            raise h11.RemoteProtocolError(
                f"the request has the header {name.decode().title()} more than once"
            )


def _check_head(waiting: bytes) -> None:
    found = _HEAD_END.search(waiting)
    end = len(waiting) if found is None else found.end()
    if end > HEADER_BYTES_MAX:
        raise h11.RemoteProtocolError(
            f"the headers are larger than {HEADER_BYTES_MAX} bytes", error_status_hint=431
        )
    if waiting.count(b"\n", 0, end) > HEADER_LINES_MAX:
        raise h11.RemoteProtocolError(
            f"the headers have more than {HEADER_LINES_MAX} lines", error_status_hint=431
        )
