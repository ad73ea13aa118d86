"""What an operator wants to read about: connections, logins, refusals, alarms, administration.

An event is a value. Whoever makes one does not know whether it is written down: the server writes
lines of a log, the simulator writes nothing. There is none per message, and none holds a secret.
"""

from enum import Enum

from mypy_extensions import mypyc_attr


class EventKind(Enum):
    """The value is what the log calls it."""

    CONNECTION_OPENED = "connection opened"
    CONNECTION_CLOSED = "connection closed"
    TLS_HANDSHAKE_FAILED = "TLS handshake failed"
    LOGIN_ACCEPTED = "login accepted"
    LOGIN_REFUSED = "login refused"
    ACCESS_DENIED = "access denied"
    CHANNEL_ERROR = "channel error"
    SESSION_ERROR = "session error"
    LINK_ERROR = "link error"
    ALARM_RAISED = "alarm raised"
    ALARM_CLEARED = "alarm cleared"
    POLICY_SET = "policy set"
    POLICY_CLEARED = "policy cleared"
    ARGUMENTS_CHANGED = "queue arguments changed"
    MOVE_BEGUN = "move of messages begun"
    MOVE_CANCELLED = "move of messages cancelled"
    LIMITS_SET = "virtual host limits set"
    USER_SET = "user set"
    USER_DELETED = "user deleted"
    PERMISSIONS_SET = "permissions set"
    PERMISSIONS_CLEARED = "permissions cleared"
    VHOST_ADDED = "virtual host added"
    VHOST_DELETED = "virtual host deleted"
    DEFINITIONS_IMPORTED = "definitions imported"
    TOPIC_PERMISSIONS_SET = "topic permissions set"
    TOPIC_PERMISSIONS_CLEARED = "topic permissions cleared"
    USER_LIMITS_SET = "user limits set"
    GLOBAL_PARAMETER_SET = "global parameter set"
    GLOBAL_PARAMETER_CLEARED = "global parameter cleared"
    OPERATOR_POLICY_SET = "operator policy set"
    OPERATOR_POLICY_CLEARED = "operator policy cleared"
    PARAMETER_SET = "parameter set"
    PARAMETER_CLEARED = "parameter cleared"
    TOPOLOGY_CHANGED = "topology changed"
    CONNECTION_CLOSE_REQUESTED = "connection close requested"
    CLUSTER_CHANGED = "cluster changed"
    CLUSTER_ROLE_CHANGED = "cluster role changed"
    CLUSTER_IN_SYNC_CHANGED = "cluster in-sync set changed"
    PEER_LINK_OPENED = "peer link opened"
    PEER_LINK_CLOSED = "peer link closed"
    PEER_LINK_REFUSED = "peer link refused"
    REPLICA_STATE_CHANGED = "replica state changed"


class Severity(Enum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Party:
    """Who an event is about; parts that are not known are empty."""

    def __init__(
        self,
        connection: int = 0,
        peer_host: str = "",
        peer_port: int = 0,
        user: str = "",
        vhost: str = "",
    ) -> None:
        self.connection: int = connection
        self.peer_host: str = peer_host
        self.peer_port: int = peer_port
        self.user: str = user
        self.vhost: str = vhost

    def peer(self) -> str:
        if not self.peer_port:
            return self.peer_host
        host = f"[{self.peer_host}]" if ":" in self.peer_host else self.peer_host
        return f"{host}:{self.peer_port}"


class Event:
    """Made once and never changed."""

    def __init__(
        self,
        kind: EventKind,
        severity: Severity,
        party: Party,
        reason: str,
        facts: dict[str, object],
        is_audit: bool = False,
    ) -> None:
        self.kind: EventKind = kind
        self.severity: Severity = severity
        self.party: Party = party
        self.reason: str = reason
        # Further texts and numbers, by the names that the log has for them.
        self.facts: dict[str, object] = facts
        # Whether it says what an operator changed, of which no line may be left out.
        self.is_audit: bool = is_audit


@mypyc_attr(allow_interpreted_subclasses=True)
class EventLog:
    """The interface for recording events. This class records nothing."""

    def record(self, event: Event) -> None:
        """Called on the node's thread, in the middle of something: must not raise, nor wait."""
