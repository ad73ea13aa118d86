"""One AMQP 1.0 connection of a program in the simulation: login, open, one session.

Drives the wire's connection in its client role: bytes and ticks in, calls to its program out,
output written at the end of each turn.
"""

from abc import ABC, abstractmethod

from penstock.simulation.caller import TICK_US
from penstock.simulation.clock import VirtualClock
from penstock.simulation.endpoint import Endpoint, StreamUser
from penstock.wire.amqp10.connection import Connection
from penstock.wire.amqp10.errors import ConnectionFault, LinkFault, SessionFault
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.listener import ConnectionListener
from penstock.wire.amqp10.performatives_generated import (
    Attach,
    Begin,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
)
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.states import Role
from penstock.wire.amqp10.values import Composite
from penstock.wire.outgoing import Outgoing
from penstock.wire.sasl import plain_response


class LineUser(ABC):
    """The callbacks of a line to its program."""

    @abstractmethod
    def line_opened(self) -> None:
        """Logged in, and both sides have sent open."""

    @abstractmethod
    def session_begun(self, session: Session) -> None: ...

    @abstractmethod
    def link_attached(self, link: Link, attach: Attach) -> None:
        """The node's attach; without source and target it is a refusal, and a detach follows."""

    @abstractmethod
    def link_ended(self, link: Link, fault: LinkFault | None, closed: bool) -> None: ...

    @abstractmethod
    def session_ended(self, session: Session, fault: SessionFault | None) -> None: ...

    @abstractmethod
    def line_ended(self, fault: ConnectionFault | None) -> None:
        """Once, and the last call."""


class Amqp10Line(StreamUser):
    """Held by its program and by its endpoint."""

    def __init__(
        self,
        user: LineUser,
        endpoint: Endpoint,
        clock: VirtualClock,
        container_id: str,
        limits: Limits,
    ) -> None:
        self.user = user
        self.endpoint = endpoint
        self._clock = clock
        self._flush_list: list[Outgoing] = []
        self.is_writable = True
        self.is_over = False
        self.wire = Connection(
            Role.CLIENT,
            LineListener(self),
            Outgoing(self._flush_list, endpoint),
            limits,
            container_id,
        )
        # The login is done, and our open is to follow the header that the wire sends.
        self.owes_open = False
        endpoint.user = self

    def start(self) -> None:
        self.wire.start(True)
        self.flush()
        self._clock.after(TICK_US, self._tick)

    def received(self, data: bytes) -> None:
        self.wire.receive(data, self._clock.now())
        if self.owes_open and not self.is_over:
            self.owes_open = False
            self.wire.open(None)
        self.flush()

    def lost(self) -> None:
        self.wire.lost()

    def writable_changed(self, writable: bool) -> None:
        self.is_writable = writable

    def _tick(self) -> None:
        if not self.is_over:
            self._clock.after(TICK_US, self._tick)
            self.wire.tick(self._clock.now())
            self.flush()

    def flush(self) -> None:
        while self._flush_list:
            self._flush_list.pop().flush()


class LineListener(ConnectionListener):
    """Passes on the calls of the wire. Held by the wire."""

    def __init__(self, line: Amqp10Line) -> None:
        self._line = line

    def sasl_received(self, frame: Composite) -> None:
        if isinstance(frame, SaslMechanisms):
            self._line.wire.send_sasl(SaslInit("PLAIN", plain_response("guest", "guest")))
        elif isinstance(frame, SaslOutcome) and frame.code == 0:
            self._line.owes_open = True

    def open_received(self, opened: Open) -> None:
        self._line.user.line_opened()

    def session_begun(self, session: Session, begin: Begin) -> None:
        self._line.user.session_begun(session)

    def link_attached(self, session: Session, link: Link, attach: Attach) -> None:
        self._line.user.link_attached(link, attach)

    def link_ended(
        self, session: Session, link: Link, fault: LinkFault | None, closed: bool
    ) -> None:
        self._line.user.link_ended(link, fault, closed)

    def session_ended(self, session: Session, fault: SessionFault | None) -> None:
        self._line.user.session_ended(session, fault)

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        self._line.is_over = True
        self._line.user.line_ended(fault)
