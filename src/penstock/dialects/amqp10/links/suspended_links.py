"""The registry of links, attached and suspended, by container and name.

A link endpoint lives as long as its terminus: over a detach that does not close, and where its
expiry policy and time-out allow it, over the end of the session and of the connection. Meanwhile
it is suspended, and keeps what is unsettled; an attach with the same name from the same container
finds it again (`resumption.py`). While it is attached, such an attach steals it.

Invariants: a key is attached, or suspended, or unknown; a suspended link expires once or is resumed
once.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.timers import NEVER as NOT_DUE
from penstock.broker.timers import Timer, Timers
from penstock.dialects.amqp10.links.link_end import LinkEnd, LinkKey, Parting
from penstock.dialects.amqp10.nodes.termini import LINK_DETACH, NEVER, SESSION_END, Node
from penstock.wire.amqp10.session import Session

# Above it the one that was suspended first expires. With all that a link may keep it is a few
# gigabytes in the worst case, with what links keep in practice a few megabytes.
SUSPENDED_MAX: Final = 10_000
# A peer that is away for longer than a day must attach anew, whatever time-out it asked for.
TIMEOUT_MS_MAX: Final = 24 * 60 * 60 * 1000


@mypyc_attr(allow_interpreted_subclasses=True)
class SuspendedLink(Timer):
    """A link endpoint without an attachment. Held by `ResumableLinks`; due when it expires."""

    def __init__(self, key: LinkKey, node: Node, session: Session, connection_number: int) -> None:
        super().__init__()
        self.key: LinkKey = key
        self.policy: str = node.expiry_policy
        self.timeout_ms: int = min(node.timeout_ms, TIMEOUT_MS_MAX)
        # Where it was attached last: its time-out may begin when these end.
        self.session: Session = session
        self.connection_number: int = connection_number
        self.links: ResumableLinks | None = None

    def fire(self, now: int) -> None:
        if self.links is not None:
            self.links.expire(self, now)

    def expired(self, now: int) -> None:
        """It can no longer be resumed: what it kept is given back."""
        raise NotImplementedError

    def forgotten(self, now: int) -> None:
        """This server does not serve clients any more: what it kept is given back, as a restart would."""
        raise NotImplementedError

    def held_bytes(self, message_bytes: int) -> int:
        """As a `LinkEnd`'s."""
        return 0

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        """Append everything that is out with it."""


class ResumableLinks:
    """All links of one node by container and name. Held by the dialect."""

    def __init__(self, timers: Timers) -> None:
        self._timers: Timers = timers
        self._attached: dict[LinkKey, LinkEnd] = {}
        # In order of their suspension.
        self._suspended: dict[LinkKey, SuspendedLink] = {}

    def find(self, key: LinkKey, now: int) -> SuspendedLink | None:
        """The suspended link that an attach resumes. If it is still attached, that attachment
        ends.
        """
        attached = self._attached.get(key)
        if attached is not None:
            attached.steal(now)
        suspended = self._suspended.pop(key, None)
        if suspended is not None:
            self._timers.cancel(suspended)
        return suspended

    def attached(self, end: LinkEnd) -> None:
        self._attached[end.key] = end

    def detached(self, end: LinkEnd) -> None:
        if self._attached.get(end.key) is end:
            del self._attached[end.key]

    def suspend(self, suspended: SuspendedLink, parting: Parting, now: int) -> None:
        """Keep it until it is found again or expires; see `may_suspend`."""
        self._suspended[suspended.key] = suspended
        suspended.links = self
        if len(self._suspended) > SUSPENDED_MAX:
            self.expire(next(iter(self._suspended.values())), now)
        if _begins_timeout(suspended.policy, parting):
            self._timers.schedule(suspended, now + suspended.timeout_ms)

    def session_ended(self, session: Session, now: int) -> None:
        """Also for links that were detached before it."""
        for suspended in list(self._suspended.values()):
            if suspended.session is session and suspended.policy == SESSION_END:
                self._time_out(suspended, now)

    def connection_ended(self, connection_number: int, now: int) -> None:
        for suspended in list(self._suspended.values()):
            if suspended.connection_number == connection_number and suspended.policy != NEVER:
                self._time_out(suspended, now)

    def _time_out(self, suspended: SuspendedLink, now: int) -> None:
        if suspended.due != NOT_DUE:
            return
        if suspended.timeout_ms == 0:
            self.expire(suspended, now)
        else:
            self._timers.schedule(suspended, now + suspended.timeout_ms)

    def expire(self, suspended: SuspendedLink, now: int) -> None:
        if self._suspended.get(suspended.key) is suspended:
            del self._suspended[suspended.key]
            self._timers.cancel(suspended)
            suspended.expired(now)

    def forget_all(self, now: int) -> None:
        """No link can be resumed any more, but what it was attached to stays."""
        for suspended in list(self._suspended.values()):
            self._timers.cancel(suspended)
            suspended.forgotten(now)
        self._suspended = {}

    def suspended_count(self) -> int:
        return len(self._suspended)

    def held_bytes(self, message_bytes: int) -> int:
        """Octets of what is out with suspended links."""
        octets = 0
        for suspended in self._suspended.values():
            octets += suspended.held_bytes(message_bytes)
        return octets

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        """Append everything that is out with suspended links."""
        for suspended in self._suspended.values():
            suspended.add_unsettled(found)


def may_suspend(node: Node, parting: Parting) -> bool:
    """Whether a link endpoint outlives this end of its attachment."""
    if parting is Parting.STOLEN:
        return True
    if parting is Parting.CLOSED:
        return False
    return not _begins_timeout(node.expiry_policy, parting) or node.timeout_ms > 0


def _begins_timeout(policy: str, parting: Parting) -> bool:
    """Whether the event that a policy names has happened."""
    if policy == NEVER:
        return False
    if parting is Parting.CONNECTION_ENDED or policy == LINK_DETACH:
        return True
    return parting is Parting.SESSION_ENDED and policy == SESSION_END
