"""A client program in the simulation: it connects, works, loses its line and connects again.

Drives the embedded client's sans-IO conversation like its skins: bytes and ticks in, events out,
output written at the end of each turn.
"""

from abc import abstractmethod
from functools import partial
from typing import Final

from penstock.client.conversation import Conversation
from penstock.client.errors import ReplyError
from penstock.client.events import (
    ChannelClosed,
    ConnectionClosed,
    Event,
    Opened,
    Replied,
)
from penstock.client.uri import Address
from penstock.simulation.caller import CLUSTER_ENDS, TICK_US, Caller
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.endpoint import Endpoint, StreamUser
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network
from penstock.wire.amqp091.reply_codes_generated import ACCESS_REFUSED
from penstock.wire.outgoing import Outgoing

# The texts of ends that the peer did not send; any other end of a connection was caused by the
# node.
SILENT_ENDS: Final = (
    "the peer went away",
    "missed heartbeats",
    "handshake timeout",
    "shutdown",
    *CLUSTER_ENDS,
)


class ProgramLine(StreamUser):
    """One connection of a program. Held by the program and by its endpoint."""

    def __init__(self, program: "Program", endpoint: Endpoint, epoch: int) -> None:
        self._program = program
        self.endpoint = endpoint
        self._flush_list: list[Outgoing] = []
        self.is_writable = True
        self.conversation = Conversation(
            program.address, Outgoing(self._flush_list, endpoint), name=program.name, epoch=epoch
        )
        endpoint.user = self

    def start(self) -> None:
        self.conversation.start()
        self.flush()
        self._program.clock.after(TICK_US, self._tick)

    def received(self, data: bytes) -> None:
        self._report(self.conversation.receive(data, self._program.clock.now()))

    def lost(self) -> None:
        self._report(self.conversation.lost())

    def writable_changed(self, writable: bool) -> None:
        self.is_writable = writable

    def _tick(self) -> None:
        if not self.conversation.ended:
            self._program.clock.after(TICK_US, self._tick)
            self._report(self.conversation.tick(self._program.clock.now()))

    def _report(self, events: list[Event]) -> None:
        for event in events:
            self._program.event(self, event)
        self.flush()

    def flush(self) -> None:
        while self._flush_list:
            self._flush_list.pop().flush()


class Program(Caller):
    """What publishers and consumers have in common. Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger)
        self.line: ProgramLine | None = None
        self.channel = 0
        self._opening_ticket = 0
        # The reply code that our own deliberate error will cause.
        self.expected_code = 0

    @property
    def is_gone(self) -> bool:
        return self.is_leaving and self.line is None

    @property
    def conversation(self) -> Conversation | None:
        """The present conversation: open, with an open channel."""
        if self.line is None or not self.channel or self.line.conversation.ended:
            return None
        return self.line.conversation

    # Connecting.

    def got_through(self, endpoint: Endpoint) -> None:
        self.line = ProgramLine(self, endpoint, self.epoch)
        self.line.start()

    def leave(self) -> None:
        self.is_leaving = True
        if self.line is not None:
            self.line.endpoint.resume_reading()
            self.line.conversation.close()
            self.line.flush()

    def crash(self) -> None:
        """The process dies; it starts again like any other reconnect."""
        if self.line is not None:
            self.line.endpoint.abort()

    def flush(self) -> None:
        if self.line is not None:
            self.line.flush()

    # Events of the conversation.

    def event(self, line: ProgramLine, event: Event) -> None:
        if isinstance(event, ConnectionClosed):
            self._connection_closed(event.error)
        elif isinstance(event, Opened):
            self.policy.connected()
            self.open_channel()
        elif isinstance(event, ChannelClosed):
            self._channel_closed(event)
        elif isinstance(event, Replied) and event.ticket == self._opening_ticket:
            if line.conversation.opened:
                self.channel = event.channel
                self.ready(line.conversation)
            # Otherwise the broker closed the connection in the same write, which is the next event.
        else:
            self.told(event)

    def open_channel(self) -> None:
        if self.line is not None and self.line.conversation.opened and not self.channel:
            _, self._opening_ticket = self.line.conversation.open_channel()
            self.flush()

    def close_channel(self, conversation: Conversation) -> None:
        conversation.close_channel(self.channel)
        self.channel = 0

    def _channel_closed(self, event: ChannelClosed) -> None:
        self.channel = 0
        self._opening_ticket = 0
        error = event.error
        self.history.add(f"{self.name} channel closed: {'we asked' if error is None else error}")
        if isinstance(error, ReplyError) and error.code == self.expected_code:
            self.history.sighted("a channel error")
            self.expected_code = 0
        elif error is not None and not is_silent_end(error):
            self.ledger.violated(f"{self.name} lost its channel: {error}")
        self.channel_lost(event)
        if self.line is not None and self.line.conversation.opened:
            self.clock.after(self.dice.between(0, 20_000), partial(self._reopen, self.line))

    def _reopen(self, line: ProgramLine) -> None:
        if self.line is line:
            self.open_channel()

    def _connection_closed(self, error: ReplyError | None) -> None:
        self.line = None
        self.channel = 0
        self.expected_code = 0
        self.history.add(f"{self.name} connection closed: {'we asked' if error is None else error}")
        if error is not None:
            if "missed heartbeats" in error.text:
                self.history.sighted("a client notices a cut by missed heartbeats")
            # A server with a new disk knows no users yet.
            is_stranger = len(self._addresses) > 1 and error.code == ACCESS_REFUSED
            if not is_silent_end(error) and not is_stranger:
                self.ledger.violated(f"{self.name} lost its connection: {error}")
            self.sent_to(error.text)
        if not self.is_leaving:
            self.policy.failed()
            self.connect()

    @abstractmethod
    def ready(self, conversation: Conversation) -> None:
        """A channel is open."""

    @abstractmethod
    def told(self, event: Event) -> None:
        """Any other event from the broker."""

    @abstractmethod
    def channel_lost(self, event: ChannelClosed) -> None:
        """The channel is gone, by itself or with its connection."""


def is_silent_end(error: ReplyError) -> bool:
    return any(text in error.text for text in SILENT_ENDS)
