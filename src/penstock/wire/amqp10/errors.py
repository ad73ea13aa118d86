"""Faults: what went wrong, with the specification's condition and the endpoint it ends.

Raised by this room and by listeners; `Connection.receive` catches both and
answers with detach, end or close.
"""

from penstock.wire.amqp10.performatives_generated import Error


class Fault(Exception):
    """What the three levels share. Never raised itself."""

    def __init__(
        self, condition: str, description: str = "", info: dict[str, object] | None = None
    ) -> None:
        super().__init__(condition, description)
        self.condition: str = condition
        self.description: str = description
        self.info: dict[str, object] | None = info
        # True when the peer sent it, False when we did.
        self.from_peer: bool = False

    def error(self) -> Error:
        return Error(self.condition, self.description or None, self.info)

    def __str__(self) -> str:
        return f"{self.condition}: {self.description}"


class LinkFault(Fault):
    """Detaches (and closes) one link; its session goes on."""


class SessionFault(Fault):
    """Ends one session with its links; the connection goes on."""


class ConnectionFault(Fault):
    """Closes the whole connection."""


def link_fault_of(error: Error | None) -> LinkFault | None:
    if error is None:
        return None
    fault = LinkFault(error.condition, error.description or "", error.info)
    fault.from_peer = True
    return fault


def session_fault_of(error: Error | None) -> SessionFault | None:
    if error is None:
        return None
    fault = SessionFault(error.condition, error.description or "", error.info)
    fault.from_peer = True
    return fault


def connection_fault_of(error: Error | None) -> ConnectionFault | None:
    if error is None:
        return None
    fault = ConnectionFault(error.condition, error.description or "", error.info)
    fault.from_peer = True
    return fault
