"""A cluster of simulated servers with the shipped node, and clients whose every word is the test's."""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.replication_level import ReplicationLevel
from penstock.broker.store.definition_records import encode_change, snapshot_of
from penstock.broker.store.limits import StoreLimits
from penstock.client.conversation import Conversation
from penstock.client.errors import ReplyError
from penstock.client.events import (
    ChannelClosed,
    Confirmed,
    ConnectionClosed,
    Delivered,
    Event,
    Opened,
    Replied,
)
from penstock.client.uri import Address
from penstock.cluster.links import LinkSettings
from penstock.cluster.member import Member
from penstock.cluster.record import ClusterRecord, bootstrap_record, cluster_id_of_key
from penstock.cluster.timing import Timing
from penstock.formats.amqp091_frames import (
    FRAME_HEAD_SIZE,
    METHOD_FRAME,
    encode_frame,
)
from penstock.formats.octets import read_u32
from penstock.node.cluster_settings import ClusterSettings
from penstock.node.cluster_status import ClusterStatus, MemberStatus
from penstock.simulation.clock import VirtualClock
from penstock.simulation.cluster_host import ClusterWorld
from penstock.simulation.endpoint import Endpoint, StreamUser
from penstock.simulation.history import History
from penstock.simulation.network import Network
from penstock.simulation.plans import StoragePlan
from penstock.simulation.run import make_source
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from penstock.wire.amqp091.limits import Limits
from penstock.wire.outgoing import Outgoing
from penstock.world.network import Transport
from tests.seeds.watched_host import CalmDice, WatchedHost
from tests.simulation.doubles import dice_of

KEY = b"the key of this cluster"
SECOND_US = 1_000_000
LOOK_US = 10_000
TICK_US = 500_000
TIMING = Timing()
# Of simulated time: an election takes about three seconds, one that is disturbed some more.
PATIENCE_SECONDS = 30


class Cluster:
    """Held by the test. `names` is the order of seniority."""

    def __init__(
        self,
        names: str = "abc",
        key_of: dict[str, bytes] | None = None,
        timing: Timing = TIMING,
        replicate: ReplicationLevel = ReplicationLevel.ALL,
    ) -> None:
        self.clock = VirtualClock()
        self.history = History(self.clock)
        self.dice = dice_of(1)
        calm = CalmDice(make_source, "network")
        self.network = Network(self.clock, calm, self.history)
        self._key_of = key_of or {}
        self._timing = timing
        self._replicate = replicate
        self.digest_of: dict[str, str] = {}
        self.record = self.bootstrap(names)
        self.hosts: dict[str, WatchedHost] = {}
        self._client_count = 0
        for name in names:
            self.add_host(name, self.record)

    @staticmethod
    def bootstrap(names: str) -> ClusterRecord:
        members = [Member(name, f"{name}:5672") for name in names]
        return bootstrap_record(cluster_id_of_key(KEY), members)

    def add_host(self, name: str, record: ClusterRecord) -> WatchedHost:
        """A server that was formatted with this record."""
        world = ClusterWorld(
            self.clock,
            self.history,
            self.network,
            lambda _: record,
            self._settings,
            Limits(heartbeat_seconds=1),
            StoragePlan(StoreLimits()),
        )
        host = WatchedHost(name, world, self.dice.fork(name))
        self.hosts[name] = host
        self.network.listen(name, host)
        return host

    def _settings(self, name: str) -> ClusterSettings:
        return ClusterSettings(
            name,
            self._key_of.get(name, KEY),
            self.digest_of.get(name, ""),
            replicate=self._replicate,
            timing=self._timing,
            links=LinkSettings(heartbeat_seconds=1),
        )

    # Time.

    def run(self, seconds: float) -> None:
        self.clock.run(int(seconds * SECOND_US))

    def until(self, is_so: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        """Fails when it does not come about."""
        end = self.clock.microseconds + int(seconds * SECOND_US)
        while not is_so():
            assert self.clock.microseconds < end, self.describe()
            self.clock.run(LOOK_US)

    def describe(self) -> str:
        return "; ".join(
            f"{name}: {status.role} of epoch {status.epoch}, root {status.root!r}"
            for name, status in ((name, self.status(name)) for name in self.up())
        )

    # Servers.

    def up(self) -> list[str]:
        return [name for name, host in self.hosts.items() if host.is_up]

    def roots(self) -> list[str]:
        return [name for name, host in self.hosts.items() if host.may_serve()]

    def elected(self, name: str = "") -> WatchedHost:
        """The root, once there is one and all others that are up follow it in sync."""

        def is_settled() -> bool:
            roots = self.roots()
            if len(roots) != 1 or (name and roots != [name]):
                return False
            statuses = [self.status(other) for other in self.up()]
            in_sync = self.hosts[roots[0]].record.in_sync
            return all(status.role in {"active", "ready"} for status in statuses) and all(
                other in in_sync for other in self.up()
            )

        self.until(is_settled)
        return self.hosts[self.roots()[0]]

    def elected_among(self, names: str) -> str:
        """The root that serves, whatever servers outside of these do."""
        self.until(lambda: any(name in names for name in self.roots()))
        return self.roots()[0]

    def hand_over(self, heir: str) -> None:
        """As soon as the root takes the command."""
        root = self.elected()
        self.until(lambda: not root.election.hand_over(heir, root.now()))
        self.elected(heir)

    def status(self, name: str) -> ClusterStatus:
        host = self.hosts[name]
        return host.member.status(host.now())

    def member_status(self, seen_by: str, name: str) -> MemberStatus:
        return next(one for one in self.status(seen_by).members if one.name == name)

    def die_silently(self, name: str) -> None:
        """The machine is gone: nobody gets a word from it, not even that its connections ended."""
        for line in self.network.lines():
            if name in line.ends:
                line.cut(True, True)
        self.hosts[name].die()

    def isolate(self, name: str, seconds: float = 1000) -> None:
        """A partition between this server and all others, clients not included."""
        until = self.clock.microseconds + int(seconds * SECOND_US)
        for other in self.hosts:
            if other != name:
                self.network.divide(name, other, until)
                self.network.divide(other, name, until)

    def settle(self) -> None:
        """Everything that the root has done is committed and applied by all who are up."""
        root = self.hosts[self.roots()[0]]
        self.until(
            lambda: (
                root.node.is_all_durable()
                and not root.node.has_work()
                and len({self.hosts[name].replica.syn() for name in self.up()}) == 1
            )
        )

    def are_equal(self) -> bool:
        return len({self.hosts[name].replica.held_messages().digest() for name in self.up()}) == 1

    def definitions(self, name: str) -> list[bytes]:
        """Everything that is defined on a server, as operations carry it."""
        node = self.hosts[name].node
        return sorted(encode_change(one) for one in snapshot_of(node.state, node.unsettled()))

    def have_same_definitions(self) -> bool:
        first, *others = [self.definitions(name) for name in self.up()]
        return all(other == first for other in others)

    # Clients.

    def caller(self, server: str, cluster_key: str = "") -> SimulatedClient:
        """A client that has begun to connect."""
        self._client_count += 1
        return SimulatedClient(self, server, f"client{self._client_count}", cluster_key)

    def client(self, server: str = "", *, confirms: bool = True) -> SimulatedClient:
        """A client of the root, or of the server that is named, with a channel."""
        client = self.caller(server or self.elected().name)
        self.until(lambda: client.is_open)
        client.open_channel()
        if confirms:
            client.call(m.ConfirmSelect())
        return client


class SimulatedClient(StreamUser):
    """One connection. It does not come back by itself."""

    def __init__(self, cluster: Cluster, server: str, name: str, cluster_key: str) -> None:
        self._cluster = cluster
        self._cluster_key = cluster_key
        self._endpoint: Endpoint | None = None
        self._flush_list: list[Outgoing] = []
        self._name = name
        self._server = server
        self.conversation: Conversation | None = None
        self.events: list[Event] = []
        self.is_refused = False
        self.heard = bytearray()
        cluster.network.dial(server, name, self._answered)

    def _answered(self, endpoint: Endpoint | None) -> None:
        if endpoint is None:
            self.is_refused = True
            return
        self._endpoint = endpoint
        endpoint.user = self
        transport = KeyedTransport(endpoint, self._cluster_key)
        self.conversation = Conversation(
            Address(self._server, heartbeat_seconds=1),
            Outgoing(self._flush_list, transport),
            name=self._name,
        )
        self.conversation.start()
        self._flush()
        self._cluster.clock.after(TICK_US, self._tick)

    def received(self, data: bytes) -> None:
        self.heard += data
        self.events += self._talk.receive(data, self._cluster.clock.now())
        self._flush()

    def lost(self) -> None:
        self.events += self._talk.lost()

    def writable_changed(self, writable: bool) -> None: ...

    def _tick(self) -> None:
        if not self._talk.ended:
            self._cluster.clock.after(TICK_US, self._tick)
            self.events += self._talk.tick(self._cluster.clock.now())
            self._flush()

    def _flush(self) -> None:
        while self._flush_list:
            self._flush_list.pop().flush()

    @property
    def _talk(self) -> Conversation:
        assert self.conversation is not None, "connected"
        return self.conversation

    # What the test sees.

    @property
    def is_open(self) -> bool:
        return any(isinstance(event, Opened) for event in self.events)

    @property
    def end(self) -> ReplyError | None:
        """Why the connection was closed; None while it lives."""
        for event in self.events:
            if isinstance(event, ConnectionClosed):
                return event.error
        return None

    @property
    def is_ended(self) -> bool:
        return self._talk.ended

    @property
    def channel_error(self) -> ReplyError | None:
        errors = [event.error for event in self.events if isinstance(event, ChannelClosed)]
        return errors[-1] if errors else None

    @property
    def confirmed(self) -> list[object]:
        """Notes of the publishes that were confirmed."""
        return [
            settled.note
            for event in self.events
            if isinstance(event, Confirmed) and not event.nack
            for settled in event.settled
        ]

    @property
    def in_doubt(self) -> list[object]:
        """Notes of the publishes that had no answer when the channel was lost."""
        return [
            settled.note
            for event in self.events
            if isinstance(event, ChannelClosed)
            for settled in event.in_doubt
        ]

    @property
    def deliveries(self) -> list[Delivered]:
        return [event for event in self.events if isinstance(event, Delivered)]

    def replies(self, kind: type[m.Method]) -> int:
        return sum(
            isinstance(event, Replied) and isinstance(event.method, kind) for event in self.events
        )

    # What the test says.

    def open_channel(self) -> None:
        _, ticket = self._talk.open_channel()
        self._answer(ticket)

    def call(self, method: m.Method) -> Replied | None:
        """The answer; None if the channel was closed instead."""
        return self._answer(self.ask(method))

    def ask(self, method: m.Method) -> int:
        """Said and not yet answered."""
        ticket = self._talk.call(1, method)
        self._flush()
        return ticket

    def _answer(self, ticket: int) -> Replied | None:
        self._flush()
        found: list[Event] = []

        def is_answered() -> bool:
            found[:] = [
                event
                for event in self.events
                if (isinstance(event, Replied) and event.ticket == ticket)
                or isinstance(event, ChannelClosed | ConnectionClosed)
            ]
            return bool(found)

        self._cluster.until(is_answered)
        return found[-1] if isinstance(found[-1], Replied) else None

    def tell(self, method: m.Method) -> None:
        self._talk.tell(1, method)
        self._flush()

    def publish(self, queue: str, *bodies: bytes, exchange: str = "") -> None:
        """Sent; the body is the note of its confirm."""
        for body in bodies:
            self._talk.publish(1, exchange, queue, body, note=body)
        self._flush()

    def publish_with(
        self, queue: str, body: bytes, properties: BasicProperties, *, exchange: str = ""
    ) -> None:
        self._talk.publish(1, exchange, queue, body, properties, note=body)
        self._flush()

    def confirmed_publish(self, queue: str, *bodies: bytes, exchange: str = "") -> None:
        self.publish(queue, *bodies, exchange=exchange)
        self._cluster.until(lambda: set(bodies) <= set(self.confirmed))

    def consume(self, queue: str, count: int) -> list[Delivered]:
        """The first messages of a consumer that acknowledges nothing."""
        self.call(m.BasicConsume(queue, "tag"))
        self._cluster.until(lambda: len(self.deliveries) >= count)
        return self.deliveries

    def close(self) -> None:
        self._talk.close()
        self._flush()


class KeyedTransport(Transport):
    """Puts a cluster key into the client's properties, as applications do that have one."""

    def __init__(self, endpoint: Endpoint, cluster_key: str) -> None:
        self._endpoint = endpoint
        self._cluster_key = cluster_key

    def write(self, data: bytes) -> None:
        if self._cluster_key and data[0] == METHOD_FRAME:
            method = data[FRAME_HEAD_SIZE : FRAME_HEAD_SIZE + read_u32(data, 3)]
            if read_u32(method, 0) == m.CONNECTION_START_OK:
                start_ok = m.ConnectionStartOk.decode(method)
                start_ok.client_properties["cluster_key"] = self._cluster_key
                data = encode_frame(METHOD_FRAME, 0, start_ok.encode())
                self._cluster_key = ""
        self._endpoint.write(data)

    def close(self) -> None:
        self._endpoint.close()

    def abort(self) -> None:
        self._endpoint.abort()

    def pause_reading(self) -> None:
        self._endpoint.pause_reading()

    def resume_reading(self) -> None:
        self._endpoint.resume_reading()
