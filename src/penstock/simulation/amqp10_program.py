"""A client program that speaks AMQP 1.0: one connection, one session, and links that come and go.

A session or a connection that ends by itself is a violation, and so is a link that the node detaches,
unless the program has provoked it or its queue is one that is deleted now and then.
"""

from abc import abstractmethod
from functools import partial
from typing import Final

from penstock.client.uri import Address
from penstock.simulation.amqp10_line import Amqp10Line, LineUser
from penstock.simulation.caller import CLUSTER_ENDS, HEARTBEAT_SECONDS, Caller
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.endpoint import Endpoint
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network
from penstock.wire.amqp10.errors import ConnectionFault, LinkFault, SessionFault
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.performatives_generated import Attach
from penstock.wire.amqp10.session import Session

# From the smallest frame that the specification allows, so that messages take several.
FRAME_SIZES: Final = (512, 512, 4_096, 131_072)
WINDOWS: Final = (1, 4, 2_048)
BEGIN_US_MAX: Final = 20_000
# The texts of ends that the peer did not send; any other end of a connection was caused by the
# node.
SILENT_ENDS: Final = (
    "the peer went away",
    "nothing received",
    "handshake timeout",
    "shutdown",
    *CLUSTER_ENDS,
)


class LinkUser:
    """One link of a program, over all its attachments."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.is_ready = False
        # The conditions that our own actions may cause.
        self.expected: set[str] = set()

    def attached(self, attach: Attach) -> None:
        """The node has attached it."""

    def detached(self, fault: LinkFault | None, closed: bool) -> None:
        """This attachment is over, by itself or with its session."""


class Amqp10Program(Caller, LineUser):
    """Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger)
        self.line: Amqp10Line | None = None
        # None while there is none that both sides have begun.
        self.session: Session | None = None
        self._links: dict[Link, LinkUser] = {}
        self._limits = Limits(
            frame_max=dice.choose(FRAME_SIZES),
            idle_ms=HEARTBEAT_SECONDS * 1000,
            incoming_window=dice.choose(WINDOWS),
        )

    @property
    def is_gone(self) -> bool:
        return self.is_leaving and self.line is None

    def got_through(self, endpoint: Endpoint) -> None:
        self.line = Amqp10Line(self, endpoint, self.clock, self.name, self._limits)
        self.line.start()

    def leave(self) -> None:
        self.is_leaving = True
        line = self.line
        if line is None:
            return
        line.endpoint.resume_reading()
        if self.session is not None:
            for link in list(self._links):
                line.wire.detach(self.session, link, None, True)
        line.wire.close(None)
        line.flush()

    def crash(self) -> None:
        """The process dies; it starts again like any other reconnect."""
        if self.line is not None:
            self.line.endpoint.abort()

    def flush(self) -> None:
        if self.line is not None:
            self.line.flush()

    # Links.

    def keep_link(self, user: LinkUser, link: Link) -> None:
        """Attach it and keep it attached; its user gets the node's answer."""
        user.link = link
        user.is_ready = False
        self._links[link] = user

    def detach(self, user: LinkUser, *, closed: bool) -> None:
        """Detach in order. Anything that arrives meanwhile is ignored."""
        if self.line is None or self.session is None or user.link is None:
            return
        self.line.wire.detach(self.session, user.link, None, closed)
        self._links.pop(user.link, None)
        self._forget(user, None, closed)

    def end_session(self) -> None:
        if self.line is not None and self.session is not None:
            session = self.session
            self.session = None
            self._forget_links()
            self.line.wire.end_session(session, None)

    def _forget(self, user: LinkUser, fault: LinkFault | None, closed: bool) -> None:
        user.link = None
        user.is_ready = False
        user.detached(fault, closed)
        user.expected = set()

    def _forget_links(self) -> None:
        users = list(self._links.values())
        self._links.clear()
        for user in users:
            self._forget(user, None, False)

    # Calls from the line.

    def line_opened(self) -> None:
        self.policy.connected()
        self._begin()

    def _begin(self) -> None:
        assert self.line is not None, "it has just opened"
        self.line.wire.begin()

    def session_begun(self, session: Session) -> None:
        if self.is_leaving:
            return
        self.session = session
        self.session_ready(session)

    def link_attached(self, link: Link, attach: Attach) -> None:
        user = self._links.get(link)
        is_refused = attach.source is None or attach.target is None
        if user is not None and not is_refused and user.link is link:
            user.is_ready = True
            user.attached(attach)

    def link_ended(self, link: Link, fault: LinkFault | None, closed: bool) -> None:
        user = self._links.pop(link, None)
        if user is None or user.link is not link:
            return
        self.history.add(f"{self.name} link {link.name} detached: {fault or 'in order'}")
        if fault is not None and fault.condition in user.expected:
            self.history.sighted(f"a link is detached: {fault.condition}")
        else:
            self.ledger.violated(f"{self.name} lost its link {link.name}: {fault}")
        self._forget(user, fault, closed)

    def session_ended(self, session: Session, fault: SessionFault | None) -> None:
        if fault is not None:
            self.ledger.violated(f"{self.name} lost its session: {fault}")
        if self.session is session:
            self.session = None
            self._forget_links()
        if self.line is not None and not self.is_leaving:
            line = self.line
            self.clock.after(self.dice.between(0, BEGIN_US_MAX), partial(self._begin_again, line))

    def _begin_again(self, line: Amqp10Line) -> None:
        if self.line is line and not self.is_leaving and not line.is_over:
            self._begin()
            self.flush()

    def line_ended(self, fault: ConnectionFault | None) -> None:
        self.line = None
        self.session = None
        text = "we asked" if fault is None else str(fault)
        self.history.add(f"{self.name} connection closed: {text}")
        if "nothing received" in text:
            self.history.sighted("a client notices a cut by missed heartbeats")
        # A server with a new disk knows no users yet.
        is_stranger = len(self._addresses) > 1 and "unauthorized-access" in text
        if fault is not None and not is_stranger:
            if not any(end in text for end in SILENT_ENDS):
                self.ledger.violated(f"{self.name} lost its connection: {fault}")
            self.sent_to(text)
        self._forget_links()
        self.line_lost()
        if not self.is_leaving:
            self.policy.failed()
            self.connect()

    def line_lost(self) -> None:
        """The connection is gone, and all links with it."""

    @abstractmethod
    def session_ready(self, session: Session) -> None:
        """A session is ready for links."""
