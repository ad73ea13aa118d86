"""One process that talks to the server: conversation after conversation, every answer judged."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from tests.fuzz import amqp091, amqp10, http
from tests.fuzz.judging import Verdict, WrongAnswer

# A server that has not ended a conversation by then has forgotten it. Refused logins wait on purpose.
ANSWER_SECONDS = 60
# A damaged request may leave the server waiting for the rest of it, rightly.
HTTP_SILENCE_SECONDS = 0.02
# How often each is spoken; a request costs ten times as much as a conversation of AMQP.
WEIGHTS = {"0-9-1": 45, "1.0": 45, "http": 10}
WIRES = tuple(WEIGHTS)
# Sockets that are reset instead of closed; what was said before must not matter.
ABORTED_SHARE = 0.03
# Conversations in which the client waits for the server in between, and how long.
SLOW_SHARE = 0.25
PAUSE_SECONDS = 0.005
# Frames and requests are made anew after so many conversations.
RENEWED_AFTER = 500
# Wrong answers after which a worker stops: they are likely to be one defect.
WRONG_MAX = 20


class Maker(Protocol):
    """Makes what is said next, and whether its beginning, or all of it, is undamaged."""

    def next(self) -> tuple[bytes, bool]: ...


@dataclass(slots=True)
class Report:
    """What one worker saw. Sent back to the command."""

    conversations: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Worker:
    """Held by its process; the same seed says the same words."""

    def __init__(self, seed: int, amqp_port: int, http_port: int, wires: tuple[str, ...]) -> None:
        self._wires = wires
        self._weights = [WEIGHTS[wire] for wire in wires]
        self._random = Random(seed)
        self._seed = seed
        self._amqp_port = amqp_port
        self._http_port = http_port
        self._amqp091 = amqp091.Conversations091(self._random)
        self._amqp10 = amqp10.Conversations10(self._random)
        self._requests = http.Requests(self._random, http_port)
        self._verdict = Verdict()

    def run(self, count: int) -> Report:
        report = Report()
        for number in range(count):
            if number % RENEWED_AFTER == RENEWED_AFTER - 1:
                self._amqp091.renew()
                self._amqp10.renew()
            wire = self._random.choices(self._wires, self._weights)[0]
            report.conversations[wire] += 1
            try:
                self._converse(wire)
            except (WrongAnswer, AssertionError, ValueError) as error:
                report.wrong.append(f"seed {self._seed}, {number}, {wire}: {error!r}")
                if len(report.wrong) >= WRONG_MAX:
                    break
        report.answers = self._verdict.answers
        return report

    def _converse(self, wire: str) -> None:
        if wire == "http":
            said, is_whole = self._requests.next()
            reply, _ = self._exchange(self._http_port, said, True, not is_whole)
            http.judge(reply, is_whole, self._verdict)
            return
        maker: Maker = self._amqp091 if wire == "0-9-1" else self._amqp10
        said, is_login_whole = maker.next()
        if self._random.random() < ABORTED_SHARE:
            self._abort(said)
            return
        reply, is_cut = self._exchange(self._amqp_port, said, is_login_whole, False)
        # Damaged first octets may announce the other protocol.
        judge = (
            amqp10.judge if said[:8] in {b"AMQP\x03\x01\0\0", b"AMQP\0\x01\0\0"} else amqp091.judge
        )
        judge(reply, is_cut, self._verdict)

    def _connected(self, port: int, is_login_whole: bool) -> socket.socket:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.settimeout(ANSWER_SECONDS)
        if not is_login_whole:
            # Failed logins make their host wait: each of these comes from another one.
            connection.bind(
                (f"127.{self._random.randrange(1, 255)}.{self._random.randrange(255)}.1", 0)
            )
        connection.connect(("127.0.0.1", port))
        return connection

    def _abort(self, said: bytes) -> None:
        with self._connected(self._amqp_port, True) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(said)
        self._verdict.count("aborted by the client")

    def _exchange(
        self, port: int, said: bytes, is_login_whole: bool, may_wait: bool
    ) -> tuple[bytes, bool]:
        """The server's answer, and whether the connection was reset in the middle of it."""
        pieces: list[bytes] = []
        is_cut = False
        with self._connected(port, is_login_whole) as connection:
            try:
                if port == self._amqp_port:
                    said = self._say_slowly(connection, said, pieces)
                connection.sendall(said)
                if port == self._amqp_port:
                    connection.shutdown(socket.SHUT_WR)
                elif may_wait:
                    connection.settimeout(HTTP_SILENCE_SECONDS)
                while piece := connection.recv(1 << 16):
                    pieces.append(piece)
            except TimeoutError:
                if not may_wait:
                    raise WrongAnswer(f"no end of the conversation: {said[:4000]!r}") from None
            except OSError:  # reset; or, said in time to notice, not connected any more
                is_cut = True
                self._verdict.count("reset by the server")
        return b"".join(pieces), is_cut

    def _say_slowly(self, connection: socket.socket, said: bytes, pieces: list[bytes]) -> bytes:
        """Sometimes a part goes first, and the rest, which is returned, when the server has had its
        say: only then can deliveries be settled, and others come between.
        """
        if self._random.random() > SLOW_SHARE:
            return said
        for _ in range(self._random.choice((1, 1, 2, 5))):
            size = self._random.randrange(len(said) + 1)
            connection.sendall(said[:size])
            said = said[size:]
            connection.settimeout(PAUSE_SECONDS)
            with contextlib.suppress(TimeoutError):
                pieces.append(connection.recv(1 << 16))
            connection.settimeout(ANSWER_SECONDS)
        return said


def work(
    seed: int, count: int, amqp_port: int, http_port: int, wires: tuple[str, ...] = WIRES
) -> Report:
    return Worker(seed, amqp_port, http_port, wires).run(count)
