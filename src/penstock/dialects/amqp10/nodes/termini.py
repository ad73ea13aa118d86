"""What both kinds of terminus have: when they expire, and how they end."""

from enum import Enum
from typing import Final

from penstock.broker.errors import PreconditionFailed
from penstock.dialects.amqp10.messages.neutral_values import plain_text
from penstock.dialects.amqp10.nodes.lifetimes import NodeLife

LINK_DETACH: Final = "link-detach"
SESSION_END: Final = "session-end"
CONNECTION_CLOSE: Final = "connection-close"
NEVER: Final = "never"
_EXPIRY_POLICIES: Final = (LINK_DETACH, SESSION_END, CONNECTION_CLOSE, NEVER)
_SECOND_MS: Final = 1000


class Ending(Enum):
    """How a link endpoint ended."""

    # It can be resumed; `resume_source` or `resume_target` follows, or one of the other two.
    SUSPENDED = "suspended"
    # A peer closed it.
    CLOSED = "closed"
    # Its expiry policy and its time-out have run out.
    EXPIRED = "expired"


class Node:
    """What both kinds have: when the terminus expires, and the life of the queue that it names."""

    def __init__(self, expiry_policy: str, timeout_seconds: int, durable: int) -> None:
        self.expiry_policy: str = expiry_policy
        # From the event that the policy names to the end of the terminus.
        self.timeout_ms: int = timeout_seconds * _SECOND_MS
        # Whether the peer wants the terminus to be known after a failure.
        self.is_durable: bool = durable > 0
        self.life: NodeLife | None = None
        self.is_maker: bool = False
        self._is_counted: bool = False

    def belongs_to(self, life: NodeLife | None, is_maker: bool) -> None:
        self.life = life
        self.is_maker = is_maker
        self.resumed()

    def resumed(self) -> None:
        if self.life is not None and not self._is_counted:
            self.life.link_added()
            self._is_counted = True

    def ended(self, how: Ending, now: int) -> None:
        life = self.life
        if life is None:
            return
        if how is not Ending.SUSPENDED:
            was_counted = self._is_counted
            self._is_counted = False
            self.life = None
            life.link_gone(was_counted, self.is_maker, now)
        elif self._is_counted and life.link_suspended():
            self._is_counted = False


def check_expiry(policy: str) -> None:
    if policy not in _EXPIRY_POLICIES:
        raise PreconditionFailed(
            f"invalid expiry-policy '{policy}': expected one of {', '.join(_EXPIRY_POLICIES)}"
        )


def check_no_address(address: object) -> None:
    if address is not None:
        raise PreconditionFailed("a terminus with 'dynamic' must not have an address")


def address_text(address: object) -> str:
    if not isinstance(address, str):
        kind = type(address).__name__.lower()
        raise PreconditionFailed(f"invalid address: expected a string, got {kind}")
    return plain_text(address)
