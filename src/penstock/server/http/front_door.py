"""Where HTTP connections arrive: a thread of its own that accepts them, answers questions about
health itself, and hands everything else over to the HTTP server's loop.

So a health check does not wait for what other requests wait for: the loop that parses them, the
broker's thread, or the import of the HTTP libraries.

Invariants
- only plain `GET` and `HEAD` of the health paths are answered here; whatever is unusual about a
  request (a body, an upgrade, long headers) is left to the HTTP server;
- a socket is handed over together with what was read from it, and not used here afterwards;
- nothing here blocks but the wait for the next socket.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from typing import TYPE_CHECKING, Final, cast

from penstock.server.descriptors import OUT_OF_DESCRIPTORS, http_below
from penstock.server.http.health import PATHS, RETRY_SECONDS, answer_body
from penstock.server.http.settings import FIRST_REQUEST_SECONDS

if TYPE_CHECKING:
    from penstock.server.http.handover import Handover
    from penstock.server.http.health import HealthPages

# Sockets that have not sent a request yet. At the limit the one that has waited longest is closed,
# so a client that opens sockets and sends nothing cannot keep others out.
WAITING_MAX: Final = 1_024
# A longer health request is left to the HTTP server, which has limits of its own.
HEAD_BYTES_MAX: Final = 4_096
# Accepted in a row before the other sockets are served again.
ACCEPTED_AT_ONCE: Final = 64
# How long to wait when no file descriptors are left and no socket waits that could be closed.
EXHAUSTED_SECONDS: Final = 0.1

_QUESTIONS: Final = (b"GET /health/", b"HEAD /health/")
_PATHS: Final = {path.encode(): path for path in PATHS}
_HEAD_END: Final = b"\r\n\r\n"
# Headers with which a request is left to the HTTP server.
_UNUSUAL: Final = (b"\ncontent-length", b"\ntransfer-encoding", b"\nexpect", b"\nupgrade")


class Guest:
    """A socket whose request is not known yet. Held by the front door."""

    __slots__ = ("deadline", "said", "socket")

    def __init__(self, accepted: socket.socket, deadline: float) -> None:
        self.socket = accepted
        self.deadline = deadline
        self.said = bytearray()


class FrontDoor:
    """Held by the HTTP listener, whose thread calls `run`."""

    def __init__(
        self,
        listening: list[socket.socket],
        wakened: socket.socket,
        health: HealthPages,
        handover: Handover,
        is_encrypted: bool,
    ) -> None:
        self._listening = listening
        self._wakened = wakened
        self._health = health
        self._handover = handover
        # Then nothing can be read here, and every socket is handed over at once.
        self._is_encrypted = is_encrypted
        self._selector = selectors.DefaultSelector()
        # Ordered by deadline: all wait equally long, and a socket that was answered moves to the
        # end.
        self._guests: dict[int, Guest] = {}

    def run(self) -> None:
        """Run until a byte can be read from `wakened`."""
        for waited in [*self._listening, self._wakened]:
            self._selector.register(waited, selectors.EVENT_READ)
        try:
            while self._turn():
                pass
        finally:
            for guest in list(self._guests.values()):
                self._dismiss(guest)
            self._selector.close()

    def _turn(self) -> bool:
        for key, _ in self._selector.select(self._patience()):
            if key.fileobj is self._wakened:
                return False
            if key.data is None:
                self._accept(cast("socket.socket", key.fileobj))
            elif key.data.socket.fileno() in self._guests:
                self._hear(key.data)
        self._dismiss_silent(time.monotonic())
        return True

    def _patience(self) -> float | None:
        if not self._guests:
            return None
        return max(0.0, next(iter(self._guests.values())).deadline - time.monotonic())

    def _dismiss_silent(self, now: float) -> None:
        while self._guests:
            guest = next(iter(self._guests.values()))
            if guest.deadline > now:
                return
            self._dismiss(guest)

    # Accepting and closing.

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._survive(error)
                return
            if accepted.fileno() >= http_below():
                # The last descriptors are kept for files.
                accepted.close()
                continue
            accepted.setblocking(False)
            if self._is_encrypted:
                self._handover.give(accepted, b"")
            else:
                self._welcome(accepted)

    def _survive(self, error: OSError) -> None:
        """Without file descriptors nothing can be accepted: make room, or wait a moment."""
        if error.errno in OUT_OF_DESCRIPTORS and self._guests:
            self._dismiss(next(iter(self._guests.values())))
        else:
            time.sleep(EXHAUSTED_SECONDS)

    def _welcome(self, accepted: socket.socket) -> None:
        if len(self._guests) >= WAITING_MAX:
            self._dismiss(next(iter(self._guests.values())))
        guest = Guest(accepted, time.monotonic() + FIRST_REQUEST_SECONDS)
        self._guests[accepted.fileno()] = guest
        self._selector.register(accepted, selectors.EVENT_READ, guest)

    def _dismiss(self, guest: Guest) -> None:
        self._forget(guest)
        guest.socket.close()

    def _forget(self, guest: Guest) -> None:
        self._selector.unregister(guest.socket)
        del self._guests[guest.socket.fileno()]

    # Reading from one socket.

    def _hear(self, guest: Guest) -> None:
        try:
            data = guest.socket.recv(HEAD_BYTES_MAX)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._dismiss(guest)
            return
        guest.said += data
        while guest.said:
            if not _may_ask_for_health(guest.said):
                self._hand_over(guest)
                return
            end = guest.said.find(_HEAD_END)
            if end < 0:
                if len(guest.said) > HEAD_BYTES_MAX:
                    self._hand_over(guest)
                return
            if not self._answer(guest, bytes(guest.said[: end + len(_HEAD_END)])):
                return

    def _hand_over(self, guest: Guest) -> None:
        self._forget(guest)
        self._handover.give(guest.socket, bytes(guest.said))

    def _answer(self, guest: Guest, head: bytes) -> bool:
        """Answer one health request; False when the socket was closed or handed over."""
        words = head.split(b"\r\n", 1)[0].split(b" ")
        headers = head.lower()
        path = _PATHS.get(words[1].partition(b"?")[0]) if len(words) == 3 else None
        # An HTTP/1.0 client need not send a Host header, and its connection is closed.
        is_old = len(words) == 3 and words[2] == b"HTTP/1.0"
        is_plain = (
            path is not None
            and (is_old or (words[2] == b"HTTP/1.1" and b"\nhost:" in headers))
            and not any(name in headers for name in _UNUSUAL)
        )
        if path is None or not is_plain:
            self._hand_over(guest)
            return False
        del guest.said[: len(head)]
        closes = is_old or b"\nconnection: close" in headers
        answer = _answer_to(path, self._health.objection(path), words[0] == b"HEAD", closes)
        try:
            sent = guest.socket.send(answer)
        except OSError:
            sent = 0
        # A peer whose buffer has no room for a few hundred bytes does not read.
        if closes or sent != len(answer):
            self._dismiss(guest)
            return False
        # It may send another request, and waits behind the others until then.
        del self._guests[guest.socket.fileno()]
        guest.deadline = time.monotonic() + FIRST_REQUEST_SECONDS
        self._guests[guest.socket.fileno()] = guest
        return True


def _may_ask_for_health(said: bytearray) -> bool:
    """Whether the input so far is, or may become, a health request."""
    return any(question.startswith(said[: len(question)]) for question in _QUESTIONS)


def _answer_to(path: str, objection: str, is_head: bool, closes: bool) -> bytes:
    body = json.dumps(answer_body(path, objection), separators=(",", ":")).encode()
    status = b"503 Service Unavailable" if objection else b"200 OK"
    lines = [
        b"HTTP/1.1 " + status,
        b"content-type: application/json",
        b"content-length: %d" % len(body),
    ]
    if objection:
        lines.append(b"retry-after: %d" % RETRY_SECONDS)
    if closes:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + _HEAD_END + (b"" if is_head else body)
