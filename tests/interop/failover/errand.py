"""What the clients of the failover test have in common: their arguments, bodies and reports.

A sender numbers its messages and counts one as sent when it is confirmed. What was not confirmed
when a connection was lost is sent again, with a mark, because the broker may have it already. Every
confirm and every delivery is a line of standard output. A sender ends when its standard input ends
and everything is confirmed; a receiver is ended from outside.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass

# Between two attempts to connect, and between two messages, so that no client takes all of a core.
PAUSE_SECONDS = 0.1
REST_SECONDS = 0.005
# Sent and not yet confirmed, or delivered and not yet acknowledged.
WINDOW = 20
AGAIN = " again"


@dataclass(frozen=True, slots=True)
class Errand:
    """From the command line: the role, the queue, and the servers as HOST:PORT,HOST:PORT."""

    is_sender: bool
    queue: str
    addresses: list[tuple[str, int]]

    def uris(self) -> list[str]:
        return [f"amqp://guest:guest@{host}:{port}" for host, port in self.addresses]


def errand() -> Errand:
    _, role, queue, servers = sys.argv
    pairs = [server.rsplit(":", 1) for server in servers.split(",")]
    return Errand(role == "send", queue, [(host, int(port)) for host, port in pairs])


def until_told() -> threading.Event:
    """Set when the standard input ends."""
    told = threading.Event()

    def read() -> None:
        sys.stdin.read()
        told.set()

    threading.Thread(target=read, daemon=True).start()
    return told


def body_of(number: int, is_again: bool) -> str:
    return f"{number}{AGAIN if is_again else ''}"


def report_confirmed(number: int) -> None:
    print(f"confirmed {number}", flush=True)


def report_received(body: str, is_flagged: bool) -> None:
    number = body.removesuffix(AGAIN)
    is_again = body.endswith(AGAIN)
    print(f"received {number} {'flagged' if is_flagged or is_again else 'first'}", flush=True)
