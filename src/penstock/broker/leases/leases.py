"""Leases: a bounded batch of a queue's messages, set apart under a name and a number.

The holder of a lease may read it again and again, also after a restart on either side, until it is
settled; then its messages are gone, as if acknowledged. Asking for a number that is already leased
gives the same messages. So a job that remembers numbers processes each message once.

A lease is itself a durable queue with a name of its own. Messages move into it in one tick, which
is one batch of the journal, so each is in one of the two, whatever happens. Its data is in the
queue's arguments and is restored with them.

Invariants
- messages of a lease do not expire, and no policy applies to it;
- what is read of it is the same every time: its rows, when it was taken, what had been seen before;
- numbers of one owner are settled in order: settling n settles all up to n.
"""

import hashlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final

from penstock.broker.arguments import STREAM
from penstock.broker.entry import QueueEntry
from penstock.broker.errors import NotFound, PreconditionFailed, Refusal
from penstock.broker.internal_queues import LEASE_OF, LEASE_PREFIX
from penstock.broker.message import Message
from penstock.broker.names import NAME_OCTETS_MAX, described
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.timers import Timer
from penstock.broker.topology import DeclareQueue, DeleteQueue
from penstock.broker.vhost import VirtualHost
from penstock.formats.replication_id import count_of

OWNER: Final = "x-lease-owner"
NUMBER: Final = "x-lease-number"
EXPIRES_AT: Final = "x-lease-expires-at"
# Milliseconds since 1970.
TAKEN_AT: Final = "x-lease-taken-at"
# Which of its messages a client may have seen before: a bit each, in base64; absent for none. Kept
# here because after a restart everything in a queue counts as seen.
SEEN: Final = "x-lease-seen"
# Messages move within one tick, during which nobody else is served: a twentieth of a second.
MESSAGES_MAX: Final = 20_000
# They are also one batch of the journal, which must fit well into a segment.
BYTES_MAX: Final = 16 * 1024 * 1024
# As many as a job that lags behind may want at once.
LEASES_PER_OWNER_MAX: Final = 1_000
# The delay before messages are again returned to a queue that was full.
FULL_POLL_MS: Final = 1_000
# Wall-clock milliseconds for a lease that does not expire.
NEVER_EXPIRES: Final = 0


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A request for a lease. `messages` and `octets` are upper limits."""

    queue: str
    owner: str
    number: int
    messages: int = MESSAGES_MAX
    octets: int = BYTES_MAX
    expires_ms: int = 0


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    queue: str
    owner: str
    number: int
    messages: int
    octets: int
    # Milliseconds since 1970, or NEVER_EXPIRES.
    expires_at: int
    # Whether it was made by this request.
    created: bool = False


def take_lease(vhost: VirtualHost, request: LeaseRequest, now: int) -> LeaseFacts:
    """Set messages apart, or find those that were set apart under this number before."""
    _check(request)
    known = vhost.queues.get(lease_name(request.queue, request.owner, request.number))
    if known is not None:
        return facts_of(known, False)
    origin = _leasable(vhost, request.queue)
    if len(leases_of(vhost, request.queue, request.owner)) >= LEASES_PER_OWNER_MAX:
        raise PreconditionFailed(
            f"'{request.owner}' already holds {LEASES_PER_OWNER_MAX} leases of "
            f"{described('queue', request.queue, vhost.name)}; settle some first"
        )
    expires_at = NEVER_EXPIRES
    if request.expires_ms:
        expires_at = vhost.shared.wall.at(now) + request.expires_ms
    name = lease_name(request.queue, request.owner, request.number)
    arguments: dict[str, object] = {
        LEASE_OF: request.queue,
        OWNER: request.owner,
        NUMBER: request.number,
        EXPIRES_AT: expires_at,
        TAKEN_AT: vhost.shared.wall.at(now),
    }
    taken = _taken_from(origin, request, now)
    seen = _bits_of(taken)
    if seen:
        arguments[SEEN] = seen
    try:
        vhost.apply(DeclareQueue(name, durable=True, arguments=arguments, server_named=True), now)
    except Refusal:
        # For example, the limit of queues.
        origin.requeue(taken, now, False)
        raise
    lease = vhost.queue(name)
    if taken:
        origin.lease_many(taken)
    for entry in taken:
        lease.enqueue(_copy(entry.message), now)
    _watch(vhost, lease, now)
    return facts_of(lease, True)


def _taken_from(origin: MessageQueue, request: LeaseRequest, now: int) -> list[QueueEntry]:
    taken: list[QueueEntry] = []
    count = min(request.messages, MESSAGES_MAX)
    octets = min(request.octets, BYTES_MAX)
    while count > 0 and octets > 0:
        entry = origin.get(now)
        if entry is None:
            break
        count -= 1
        octets -= len(entry.message.body)
        taken.append(entry)
    return taken


def _bits_of(entries: list[QueueEntry]) -> str:
    bits = bytearray((len(entries) + 7) // 8)
    for index, entry in enumerate(entries):
        if entry.is_redelivered:
            bits[index >> 3] |= 1 << (index & 7)
    return b64encode(bits).decode() if any(bits) else ""


def leased(lease: MessageQueue, first: int, end: int) -> list[QueueEntry]:
    """Some of a lease's messages, flagged as they were when it was taken."""
    seen = lease.arguments.get(SEEN, "")
    assert isinstance(seen, str), "written by `take_lease`"
    bits = b64decode(seen)
    found: list[QueueEntry] = []
    for known in lease.browse(end)[first:]:
        entry = QueueEntry(known.message, known.position)
        # A lease is filled once, within one epoch, from its first position on.
        index = count_of(known.position) - 1
        entry.is_redelivered = index >> 3 < len(bits) and bits[index >> 3] >> (index & 7) & 1 == 1
        found.append(entry)
    return found


def taken_at(lease: MessageQueue) -> int:
    """Milliseconds since 1970."""
    return _integer(lease, TAKEN_AT)


def find_lease(vhost: VirtualHost, queue: str, owner: str, number: int) -> MessageQueue:
    lease = vhost.queues.get(lease_name(queue, owner, number))
    if lease is None:
        raise NotFound(
            f"no lease {number} of '{owner}' on {described('queue', queue, vhost.name)}: it was "
            "settled, released, has expired, or never existed"
        )
    return lease


def settle_leases(vhost: VirtualHost, queue: str, owner: str, number: int, now: int) -> int:
    """Settle all leases up to a number; returns how many messages were dequeued. Settling a lease
    again changes nothing.
    """
    count = 0
    for lease in leases_of(vhost, queue, owner):
        if number_of(lease) <= number:
            count += lease.message_count
            vhost.apply(DeleteQueue(lease.name), now)
    return count


def give_back(vhost: VirtualHost, queue: str, owner: str, number: int, now: int) -> int:
    """Return a lease's messages to the end of their queue, flagged as redelivered. What a full
    queue refuses stays in the lease; then `PreconditionFailed` is raised.
    """
    lease = find_lease(vhost, queue, owner, number)
    origin = vhost.queues.get(queue)
    count = 0
    while origin is not None:
        entry = lease.get(now)
        if entry is None:
            break
        if not origin.enqueue(_copy(entry.message), now, True):
            lease.requeue([entry], now, False)
            raise PreconditionFailed(
                f"{described('queue', queue, vhost.name)} is full: {count} messages of lease "
                f"{number} of '{owner}' were returned to it, the others stay leased"
            )
        lease.acknowledge(entry)
        count += 1
    vhost.apply(DeleteQueue(lease.name), now)
    return count


class LeaseExpiry(Timer):
    """Releases a lease whose owner has not settled it in time. Held by the timers."""

    def __init__(self, vhost: VirtualHost, lease: MessageQueue) -> None:
        super().__init__()
        self._vhost: VirtualHost = vhost
        self._lease: MessageQueue = lease

    def fire(self, now: int) -> None:
        if self._lease.is_deleted:
            return
        facts = facts_of(self._lease, False)
        try:
            give_back(self._vhost, facts.queue, facts.owner, facts.number, now)
        except PreconditionFailed:
            self._vhost.timers.schedule(self, now + FULL_POLL_MS)


def _watch(vhost: VirtualHost, lease: MessageQueue, now: int) -> None:
    expires_at = _integer(lease, EXPIRES_AT)
    if expires_at != NEVER_EXPIRES:
        due = max(now, expires_at - vhost.shared.wall.offset_ms)
        vhost.timers.schedule(LeaseExpiry(vhost, lease), due)


def resume_leases(vhost: VirtualHost, now: int) -> None:
    """After a restart: leases expire at the same time as without it."""
    for queue in vhost.queues.values():
        if LEASE_OF in queue.arguments:
            _watch(vhost, queue, now)


def leases_of(vhost: VirtualHost, queue: str, owner: str) -> list[MessageQueue]:
    """In order of their numbers."""
    found = [
        lease
        for lease in vhost.queues.values()
        if lease.arguments.get(LEASE_OF) == queue and lease.arguments.get(OWNER) == owner
    ]
    found.sort(key=number_of)
    return found


def number_of(lease: MessageQueue) -> int:
    return _integer(lease, NUMBER)


def lease_name(queue: str, owner: str, number: int) -> str:
    """Names of queues and owners may together be longer than a queue's name may be."""
    text = f"{len(queue)}:{queue}{owner}".encode(errors="surrogateescape")
    return f"{LEASE_PREFIX}{hashlib.sha256(text).hexdigest()[:32]}.{number}"


def facts_of(lease: MessageQueue, created: bool) -> LeaseFacts:
    return LeaseFacts(
        str(lease.arguments[LEASE_OF]),
        str(lease.arguments[OWNER]),
        number_of(lease),
        lease.message_count,
        lease.ready_bytes,
        _integer(lease, EXPIRES_AT),
        created,
    )


def _integer(lease: MessageQueue, name: str) -> int:
    value = lease.arguments[name]
    assert isinstance(value, int), "written by `take_lease`"
    return value


def _check(request: LeaseRequest) -> None:
    size = len(request.owner.encode(errors="surrogateescape"))
    if not 0 < size <= NAME_OCTETS_MAX:
        raise PreconditionFailed(f"the owner of a lease must have 1 to {NAME_OCTETS_MAX} bytes")
    if request.number < 1:
        raise PreconditionFailed(f"the number of a lease must be at least 1, not {request.number}")
    if request.messages < 1 or request.octets < 1 or request.expires_ms < 0:
        raise PreconditionFailed(
            "the limits of a lease must be at least one message and one byte; its expiry cannot "
            "be negative"
        )


def _leasable(vhost: VirtualHost, name: str) -> MessageQueue:
    queue = vhost.queue(name)
    what = described("queue", name, vhost.name)
    if queue.queue_type is STREAM:
        raise PreconditionFailed(f"{what} is a stream, which cannot be leased; read it by offset")
    if not queue.durable:
        raise PreconditionFailed(f"{what} is not durable, and only durable queues can be leased")
    if not queue.is_lasting:
        raise PreconditionFailed(
            f"{what} has replication level '{queue.level.value}', and only queues of level 'all' can "
            "be leased"
        )
    if LEASE_OF in queue.arguments:
        raise PreconditionFailed(f"{what} is itself a lease")
    return queue


def _copy(message: Message) -> Message:
    """The journal writes a message object in one tick only; a later tick needs a copy."""
    return Message(message.address, message.properties, message.body, message.origin)
