"""Who asks for a change: a user at a door, or the broker itself."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Actor:
    """Made where a request arrives, and written into the audit line of what it changed."""

    # Empty where nobody has logged in: the program that holds the broker, or its start.
    user: str = ""
    peer_host: str = ""
    peer_port: int = 0
    # By which way the request came; one of the names below.
    door: str = ""


HTTP: Final = "HTTP"
AMQP10_MANAGEMENT: Final = "AMQP 1.0 management"
IN_PROCESS: Final = "Broker"
STARTUP: Final = "startup"
PEER: Final = "peer"

NOBODY: Final = Actor()
