"""The blocking skin: for Spark's executors, the command line and scripts.

A call waits for the broker's answer; a publish only until the kernel has accepted it. For example:

    with blocking.connect("amqp://localhost") as connection, connection.channel() as channel:
        queue = channel.call(declare_queue(exclusive=True)).queue
        channel.publish("", queue, b"hello")
        print(channel.get(queue, no_ack=True).body)

Everything happens in the caller's thread; `blocking_pump` says what that means for heartbeats.
"""

from collections.abc import Sequence
from typing import Final, Self

from penstock.client.blocking_channel import BlockingChannel
from penstock.client.blocking_pump import Pump, deadline_after, remaining
from penstock.client.errors import ConnectFailed, ConnectionClosedError
from penstock.client.redirect import Tour
from penstock.client.uri import Address, addresses_of

# How long a verb waits for the broker's answer; a broker that fsyncs or fails over takes seconds.
ANSWER_SECONDS: Final = 30.0


class BlockingConnection:
    """Owns the socket. Not safe across threads: give each thread its own."""

    def __init__(self, addresses: list[Address], name: str, seconds: float | None) -> None:
        self._seconds: float | None = seconds
        self._pump: Pump = Pump(addresses, name)
        deadline = deadline_after(self._pump.address.connect_timeout_milliseconds / 1000 or None)
        try:
            while not self._pump.conversation.opened:
                self._pump.turn(remaining(deadline))
                self._pump.check()
        except BaseException:
            self._pump.end()
            raise

    @property
    def address(self) -> Address:
        """The one of the given addresses that was reached."""
        return self._pump.address

    @property
    def server_properties(self) -> dict[str, object]:
        return self._pump.server_properties

    @property
    def frame_max(self) -> int:
        return self._pump.conversation.frame_max

    @property
    def blocked(self) -> str | None:
        """The broker's reason while it does not read our publishes."""
        return self._pump.blocked

    def channel(self) -> BlockingChannel:
        return BlockingChannel(self._pump, self._seconds)

    def update_secret(self, secret: str, reason: str = "") -> None:
        """Give the broker a later token before the one of the login expires. Raises when the broker
        refuses it and closes the connection.
        """
        deadline = deadline_after(self._seconds)
        pump = self._pump
        pump.check()
        wanted = pump.secrets_updated + 1
        pump.conversation.update_secret(secret, reason)
        while pump.secrets_updated < wanted:
            pump.turn(remaining(deadline))
            pump.check()

    def turn(self, seconds: float = 0.0) -> bool:
        """Read what has come, send a heartbeat when one is due; whether anything came."""
        self._pump.check()
        return self._pump.turn(seconds)

    def close(self) -> None:
        """Does nothing on a connection that has ended already."""
        deadline = deadline_after(self._seconds)
        self._pump.conversation.close()
        try:
            while self._pump.error is None:
                self._pump.turn(remaining(deadline))
        finally:
            self._pump.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    target: str | Address | Sequence[str | Address],
    *,
    name: str = "",
    timeout: float | None = ANSWER_SECONDS,
) -> BlockingConnection:
    """Log in at the first address that can be reached, in a cluster at its root; `timeout` is for
    each verb, in seconds.
    """
    tour = Tour(addresses_of(target))
    while (address := tour.next_address()) is not None:
        try:
            return BlockingConnection([address], name, timeout)
        except ConnectFailed as failed:
            tour.unreachable(failed.attempts)
        except ConnectionClosedError as closed:
            if not tour.was_closed(address, closed):
                raise
    raise tour.failure()
