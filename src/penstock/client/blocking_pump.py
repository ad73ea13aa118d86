"""Drives one conversation over one socket, in the caller's thread.

Bytes move only inside `turn` and `flush`. So heartbeats are sent only while a call waits here: a
program that computes for longer than the heartbeat between calls should call `turn` now and
then, or connect with `heartbeat=0`.
"""

import secrets
import time
from typing import Final

from penstock.client.blocking_line import Line, open_line
from penstock.client.conversation import Conversation
from penstock.client.errors import ConnectionClosedError, ReplyError, TimedOut
from penstock.client.events import (
    Blocked,
    ConnectionClosed,
    Delivered,
    Event,
    Opened,
    SecretUpdated,
    Unblocked,
)
from penstock.client.inbox import Inbox
from penstock.client.login import NONCE_OCTETS
from penstock.client.uri import Address
from penstock.wire.outgoing import Outgoing

# The longest wait between two checks of the clock: heartbeats are due every few seconds at most.
NAP_SECONDS_MAX: Final = 1.0


class Pump:
    """Held by a `BlockingConnection` and shared with its channels. Not safe across threads."""

    def __init__(self, addresses: list[Address], name: str) -> None:
        line, self.address = open_line(addresses)
        self._line: Line = line
        self._flush_list: list[Outgoing] = []
        self.conversation = Conversation(
            self.address,
            Outgoing(self._flush_list, line),
            name=name,
            nonce=secrets.token_hex(NONCE_OCTETS),
        )
        self.inboxes: dict[int, Inbox] = {}
        # The broker's reason while it does not read our publishes.
        self.blocked: str | None = None
        self.server_properties: dict[str, object] = {}
        # New secrets that the broker has taken.
        self.secrets_updated: int = 0
        self._closed: ConnectionClosed | None = None
        self.conversation.start()

    @property
    def error(self) -> ReplyError | None:
        """Why the connection ended; None while it is open."""
        if self._closed is None:
            return None
        return self._closed.error or ConnectionClosedError(0, "the connection is closed")

    def turn(self, seconds: float) -> bool:
        """Write pending output, read what has arrived; wait at most `seconds` for it.

        Returns whether anything arrived. Does nothing once the connection has ended.
        """
        if self._closed is not None:
            return False
        self._write()
        data = self._line.receive()
        if data is None and seconds > 0:
            self._line.wait(min(seconds, NAP_SECONDS_MAX))
            data = self._line.receive()
        if data is None:
            self._dispatch(self.conversation.tick(_now()))
        elif data:
            self._dispatch(self.conversation.receive(data, _now()))
        else:
            self._line.abort()
            self._dispatch(self.conversation.lost())
        self._write()
        return data is not None

    def flush(self, deadline: float | None) -> None:
        """Hand everything to the kernel, reading meanwhile."""
        self._write()
        while self._line.unsent and self._closed is None:
            self.turn(remaining(deadline))

    def check(self) -> None:
        """Raise the error that ended the connection, if it has ended."""
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        """Drop the connection without a close."""
        self._line.abort()
        if self._closed is None:
            self._dispatch(self.conversation.lost())

    def _write(self) -> None:
        while self._flush_list:
            self._flush_list.pop().flush()
        self._line.send()

    def _dispatch(self, events: list[Event]) -> None:
        inboxes = self.inboxes
        for event in events:
            if isinstance(event, Delivered):
                inboxes[event.channel].deliveries.append(event)
            elif isinstance(event, Blocked):
                self.blocked = event.reason
            elif isinstance(event, Unblocked):
                self.blocked = None
            elif isinstance(event, Opened):
                self.server_properties = event.server_properties
            elif isinstance(event, SecretUpdated):
                self.secrets_updated += 1
            elif isinstance(event, ConnectionClosed):
                self._closed = event
            else:
                inboxes[event.channel].put(event)


def _now() -> int:
    return int(time.monotonic() * 1000)


def deadline_after(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def seconds_until(deadline: float | None) -> float:
    """Zero or negative when it has passed."""
    return NAP_SECONDS_MAX if deadline is None else deadline - time.monotonic()


def remaining(deadline: float | None) -> float:
    """Seconds until then; raises when it has passed."""
    left = seconds_until(deadline)
    if left <= 0:
        raise TimedOut("the broker did not answer in time")
    return left
