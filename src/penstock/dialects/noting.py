"""A connection's events, whatever it speaks: who it is, and how severe its end is."""

from penstock.broker.access.actor import Actor
from penstock.broker.command_events import vhost_event_of
from penstock.broker.events import Event, EventKind, EventLog, Party, Severity
from penstock.broker.topology import VhostCommand
from penstock.dialects.peer import Peer
from penstock.dialects.principal import Principal


class Noting:
    """Held by a connection, which tells it who it is as that becomes known."""

    def __init__(self, events: EventLog, protocol: str, peer: Peer) -> None:
        self._events: EventLog = events
        self._protocol: str = protocol
        self._peer: Peer = peer
        self.user: str = ""
        self.principal: Principal | None = None
        # Why it ends, where that is known before it does.
        self.end_reason: str = ""
        # Whether the transport went first.
        self.is_lost: bool = False

    def note(
        self, kind: EventKind, severity: Severity, reason: str, facts: dict[str, object]
    ) -> None:
        vhost = "" if self.principal is None else self.principal.vhost.name
        peer = self._peer
        party = Party(peer.number, peer.host, peer.port, self.user, vhost)
        self._events.record(Event(kind, severity, party, reason, facts))

    def warn(self, kind: EventKind, reason: str, facts: dict[str, object]) -> None:
        self.note(kind, Severity.WARNING, reason, facts)

    def login_accepted(self, user: str, mechanism: str) -> None:
        self.user = user
        facts: dict[str, object] = {"protocol": self._protocol, "mechanism": mechanism}
        self.note(EventKind.LOGIN_ACCEPTED, Severity.INFO, "", facts)

    def login_refused(self, user: str, reason: str) -> None:
        self.end_reason = "the login was refused"
        facts: dict[str, object] = {"user": user, "protocol": self._protocol}
        self.warn(EventKind.LOGIN_REFUSED, reason, facts)

    def opened(self, principal: Principal, name: str) -> None:
        """`name` is the client's name for its connection or container."""
        self.principal = principal
        facts: dict[str, object] = {"protocol": self._protocol, "name": name}
        self.note(EventKind.CONNECTION_OPENED, Severity.INFO, "", facts)

    def administered(self, command: VhostCommand, door: str) -> None:
        """A client has changed topology as administration, and not as part of its own work."""
        assert self.principal is not None, "who changes something has opened a virtual host"
        actor = Actor(self.user, self._peer.host, self._peer.port, door)
        event = vhost_event_of(self.principal.vhost.name, command, actor)
        if event is not None:
            self._events.record(event)

    def closed(self, fault: str, is_from_peer: bool) -> None:
        """`fault` is empty for an orderly close of the client's."""
        severity = Severity.INFO
        if fault and not is_from_peer:
            severity = Severity.WARNING
        if not self.user and (self.is_lost or self.end_reason):
            # A port scan, a probe of a load balancer, or a refused login that has its own line.
            severity = Severity.DEBUG
        reason = fault or "closed by the client"
        if is_from_peer:
            reason = f"closed by the client: {fault}"
        facts: dict[str, object] = {"protocol": self._protocol}
        self.note(EventKind.CONNECTION_CLOSED, severity, self.end_reason or reason, facts)
