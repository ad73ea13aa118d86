"""A replica of one queue: it follows the source from address to address, and applies what it is told.

Invariants
- `_held` are the positions that the queue has;
- what is applied is of the incarnation that the queue follows. A source whose queue is another one is
  left alone: what is here stays, until somebody decides;
- a batch is applied within one tick, so that a crash leaves all of it or none.
"""

from dataclasses import replace
from enum import Enum
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import Refusal
from penstock.broker.events import Event, EventKind, Party, Severity
from penstock.broker.message import MessageDecoder
from penstock.broker.queues.following import REPLICA_COMPONENT, Following
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.replicas.feed_batch import (
    RANGE_SIZE,
    BadBatch,
    FeedBatch,
    FeedGreeting,
    encode_held,
)
from penstock.broker.store.records import MessageRecord
from penstock.broker.topology import SetParameter
from penstock.client.errors import ClientError, ReplyError
from penstock.client.login import NONCE_OCTETS
from penstock.client.reconnect import ReconnectPolicy
from penstock.client.redirect import is_elsewhere, root_of
from penstock.client.uri import Address, addresses_of
from penstock.dialects.container import Container
from penstock.formats.octets import Malformed
from penstock.ha.id_ranges import IdRanges
from penstock.ha.standalone.replica_dialler import ReplicaDialler
from penstock.ha.standalone.replica_link import LinkListener, ReplicaLink, SourceDial

# A failover takes a second or two; a source that stays away is asked this often.
DELAY_MS_MAX: Final = 5_000
# How soon a source that refuses is asked again: somebody has to change something first.
REFUSED_MS: Final = 5_000
# A source that hangs must be noticed soon, because another member of its cluster takes over.
HEARTBEAT_SECONDS_MAX: Final = 10
# Positions that are asked for at once when a replica begins.
LOOK_COUNT: Final = 8192


class ReplicaState(Enum):
    """The value is what people read."""

    CONNECTING = "connecting"
    CATCHING_UP = "catching up"
    FOLLOWING = "following"
    # The source is out of reach, and is tried again.
    WAITING = "waiting"
    # The source, or this server, will not; tried again in case that somebody changes that.
    REFUSED = "refused"


class QueueReplica(LinkListener):
    """Held by `QueueReplicas` while its queue follows."""

    def __init__(
        self,
        queue: MessageQueue,
        vhost: str,
        container: Container,
        decoder: MessageDecoder,
        dialler: ReplicaDialler,
        now: int,
    ) -> None:
        self.queue: MessageQueue = queue
        self.vhost: str = vhost
        self._container: Container = container
        self._decoder: MessageDecoder = decoder
        self._dialler: ReplicaDialler = dialler
        self._held: IdRanges = _positions_of(queue)
        # Of these, what the last subscription could not mention, until the source has passed it.
        self._unsure: IdRanges = IdRanges()
        self._policy: ReconnectPolicy | None = None
        self._link: ReplicaLink | None = None
        # Where it connects to next, and when. None for an address that cannot be read.
        self._next: Address | None = None
        self._due: int = now
        self.state: ReplicaState = ReplicaState.WAITING
        self.reason: str = ""
        self.changed_at: int = now
        # Where the source is, when it is connected; how many messages it has; totals since the start.
        self.connected_to: str = ""
        self.source_count: int = 0
        self.fetched_count: int = 0
        self.fetched_bytes: int = 0
        self.removed_count: int = 0
        try:
            addresses = [_brisk(address) for address in addresses_of(self._following().uri)]
            self._policy = ReconnectPolicy(addresses, container.entropy, delay_max=DELAY_MS_MAX)
            self._next = self._policy.next_attempt().address
        except ClientError as error:
            self._enter(ReplicaState.REFUSED, str(error), now)

    def _following(self) -> Following:
        following = self.queue.following
        assert following is not None, "it is ended when its queue is released"
        return following

    def tick(self, now: int) -> None:
        if self._link is not None:
            self._link.tick(now)
        elif self._next is not None and now >= self._due:
            self._dial(self._next, now)

    def end(self) -> None:
        """Its queue is released or deleted, or the server stops."""
        if self._link is not None:
            self._link.stop()
            self._link = None

    def _dial(self, address: Address, now: int) -> None:
        container = self._container
        nonce = container.entropy.octets(NONCE_OCTETS).hex()
        name = f"replica of {self._following().queue}"
        self._link = ReplicaLink(self, container, address, name, nonce)
        if self.state is not ReplicaState.REFUSED:
            self._enter(ReplicaState.CONNECTING, self.reason, now)
        self._dialler.dial(address, SourceDial(self._link))

    def _enter(self, state: ReplicaState, reason: str, now: int) -> None:
        is_worth_telling = state is not ReplicaState.CONNECTING and (
            state is not self.state or reason != self.reason
        )
        self.state = state
        self.reason = reason
        if not is_worth_telling:
            return
        self.changed_at = now
        is_well = state in {ReplicaState.CATCHING_UP, ReplicaState.FOLLOWING}
        following = self.queue.following
        facts: dict[str, object] = {
            "queue": self.queue.name,
            "source": "" if following is None else following.source(),
            "state": state.value,
        }
        severity = Severity.INFO if is_well else Severity.WARNING
        event = Event(
            EventKind.REPLICA_STATE_CHANGED, severity, Party(vhost=self.vhost), reason, facts
        )
        self._container.events.record(event)

    # Calls from the link.

    def link_opened(self, link: ReplicaLink, now: int) -> None:
        if self._is_released(link):
            return
        assert self._policy is not None, "it has dialled"
        self._policy.connected()
        self.connected_to = str(link.address)
        following = self._following()
        ranges = self._held.ranges() if following.incarnation else []
        held = encode_held(ranges)
        if len(held) > link.ids_max():
            # What is not mentioned is sent once more, and ignored here.
            held = held[: link.ids_max() // RANGE_SIZE * RANGE_SIZE]
            self._unsure = _beyond(self._held, len(held) // RANGE_SIZE)
        else:
            self._unsure = IdRanges()
        link.subscribe(following.queue, following.incarnation, held)

    def _is_released(self, link: ReplicaLink) -> bool:
        """Whether its queue follows no more, which is noticed by the next tick."""
        if self.queue.following is None or self.queue.is_deleted:
            link.stop()
            self._link = None
            return True
        return False

    def greeted(self, link: ReplicaLink, body: bytes, now: int) -> None:
        if self._is_released(link):
            return
        try:
            greeting = FeedGreeting(body)
        except BadBatch as error:
            self._refuse(link, f"the source sent something that is not valid: {error}", now)
            return
        following = self._following()
        if greeting.is_accepted and greeting.incarnation == following.incarnation:
            self._enter(ReplicaState.CATCHING_UP, "", now)
        elif following.incarnation:
            self._refuse(
                link,
                f"{following.source()} is not the queue that this replica has followed: it was deleted "
                "and declared again, or its server has lost its data. Release the replica to keep "
                "what it has, or delete it and replicate the new queue",
                now,
            )
        else:
            known = Following(following.uri, following.queue, greeting.incarnation)
            command = SetParameter(REPLICA_COMPONENT, self.queue.name, known.value())
            try:
                self._container.state.vhost(self.vhost).apply(command, now)
            except Refusal as error:
                self._refuse(link, error.text, now)
                return
            link.subscribe_again()

    def batch_received(self, link: ReplicaLink, body: bytes, now: int) -> None:
        if self._is_released(link):
            return
        try:
            batch = FeedBatch(body)
            self._apply(batch, now)
        except (BadBatch, Malformed) as error:
            self._refuse(link, f"the source sent something that is not valid: {error}", now)
            return
        self.source_count = batch.count
        if batch.walked >= batch.end and self.state is ReplicaState.CATCHING_UP:
            self._enter(ReplicaState.FOLLOWING, "", now)

    def link_ended(
        self, link: ReplicaLink, reason: str, error: ReplyError | None, now: int
    ) -> None:
        if self._is_released(link):
            return
        if error is not None and error.code > 0 and not is_elsewhere(error):
            self._refuse(link, reason, now)
            return
        root = None if error is None else root_of(error, link.address)
        self._leave(ReplicaState.WAITING, reason, root, now)

    def _refuse(self, link: ReplicaLink, reason: str, now: int) -> None:
        link.stop()
        self._leave(ReplicaState.REFUSED, reason, None, now)
        self._due = max(self._due, now + REFUSED_MS)

    def _leave(self, state: ReplicaState, reason: str, root: Address | None, now: int) -> None:
        """This link is over; `root` is where the source was said to be."""
        self._link = None
        self.connected_to = ""
        policy = self._policy
        assert policy is not None, "it has dialled"
        policy.failed()
        policy.redirected(root)
        attempt = policy.next_attempt()
        self._next = attempt.address
        self._due = now + attempt.delay_milliseconds
        self._enter(state, reason, now)

    # What it is told.

    def _apply(self, batch: FeedBatch, now: int) -> None:
        for record in batch.messages:
            self._add(record, now)
        for first, count in batch.gone:
            self._remove(first, count)
        while not self._unsure.is_empty() and self._unsure.first() < batch.walked:
            first, count = self._unsure.ranges()[0]
            count = min(count, batch.walked - first)
            self._unsure.remove_range(first, count)
            self._remove(first, count)

    def _add(self, record: MessageRecord, now: int) -> None:
        position = record.position(0)
        if record.pair_count != 1 or not 0 < position < 1 << 62:
            raise BadBatch(f"{position} is not a valid position")
        if self._held.contains(position):
            self._unsure.remove_range(position, 1)
            return
        header, body = record.header(), record.body()
        message = self._decoder.decode_addressed(record.address(), header, body)
        entry = QueueEntry(message, position)
        # A consumer of the source may have seen it.
        entry.is_redelivered = True
        expires_at = record.expires_at(0)
        if expires_at:
            entry.expires_at = max(expires_at - self._container.state.wall.offset_ms, 1)
        self.queue.follow(entry, now)
        self._held.add_range(position, 1)
        self.fetched_count += 1
        self.fetched_bytes += len(body)

    def _remove(self, first: int, count: int) -> None:
        self.removed_count += self.queue.unfollow(first, count)
        self._held.remove_range(first, count)


def _brisk(address: Address) -> Address:
    """With heartbeats that notice a source that hangs."""
    seconds = address.heartbeat_seconds
    if not 0 < seconds <= HEARTBEAT_SECONDS_MAX:
        return replace(address, heartbeat_seconds=HEARTBEAT_SECONDS_MAX)
    return address


def _positions_of(queue: MessageQueue) -> IdRanges:
    held = IdRanges()
    position = 1
    while True:
        found = queue.positions_from(position, LOOK_COUNT)
        for position in found:
            held.add_range(position, 1)
        if len(found) < LOOK_COUNT:
            return held
        position += 1


def _beyond(held: IdRanges, count: int) -> IdRanges:
    """All but the first ranges."""
    rest = IdRanges()
    for first, size in held.ranges()[count:]:
        rest.add_range(first, size)
    return rest
