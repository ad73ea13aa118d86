"""One server, still sans-IO: connections in, actions out, time as a parameter.

The server's event loop and the simulator both drive it the same way: `connected`, `received` on the
connection, `lost`, then one `flush` per tick; `fire_due` and `sweep` as time passes.

An internal error that one connection has caused closes that connection and no other. Any other is
reported to the `FailureListener`, and the rest of the tick goes on.
"""

from typing import Final

from penstock.broker.access.actor import NOBODY, Actor
from penstock.broker.definitions.parsing import Step
from penstock.broker.entry import QueueEntry
from penstock.broker.events import EventLog
from penstock.broker.ledger.ledger import Ledger
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.timers import Timers
from penstock.broker.topology import BrokerCommand, CloseConnection, Result, VhostCommand
from penstock.dialects.amqp091.dialect import Dialect091
from penstock.dialects.amqp091.login import server_properties
from penstock.dialects.amqp10.dialect import Dialect10
from penstock.dialects.connection import Connection
from penstock.dialects.container import Container, Durability
from penstock.dialects.decoding import DialectDecoder
from penstock.dialects.encryption import Encryption
from penstock.dialects.login_checker import LoginChecker
from penstock.dialects.peer import Peer
from penstock.ha.standalone.queue_replicas import QueueReplicas
from penstock.ha.standalone.replica_dialler import ReplicaDialler
from penstock.node.administration import Administration
from penstock.node.alarms import Alarms
from penstock.node.answers import Answers
from penstock.node.cluster_member import ClusterMember
from penstock.node.configuration import NodeConfiguration, prepare
from penstock.node.connection_places import ConnectionPlaces
from penstock.node.failures import FailureListener
from penstock.node.held import held_bytes
from penstock.node.joining import ClusterPlan, begin_ledger, join_cluster, prepare_state
from penstock.node.move_gate import NodeMoveGate
from penstock.node.node_owner import NodeOwner
from penstock.node.stored import StoredState
from penstock.node.unfinished import UnfinishedMessages
from penstock.wire.outgoing import Outgoing
from penstock.world.disk import Disk, DiskError
from penstock.world.entropy import Entropy
from penstock.world.network import Transport

# This many timers may fail one after the other before the rest of them waits for the next tick: a
# timer that arms itself again for the same moment must not block the node for ever.
FAILED_TIMERS_MAX: Final = 100

# The source of the alarm that the memory watcher raises.
MEMORY: Final = "memory"


class Node(NodeOwner):
    """Held by the world that drives it."""

    def __init__(
        self,
        configuration: NodeConfiguration,
        entropy: Entropy,
        login_checker: LoginChecker,
        now: int,
        wall: int,
        disk: Disk | None = None,
        events: EventLog | None = None,
        cluster: ClusterPlan | None = None,
        dialler: ReplicaDialler | None = None,
    ) -> None:
        self.configuration: NodeConfiguration = configuration
        self.state: BrokerState = BrokerState(entropy)
        self.state.set_wall_offset(wall - now)
        self.timers: Timers = self.state.timers
        name = configuration.cluster_name
        properties = server_properties(configuration.version, configuration.platform, name)
        self.container: Container = Container(self.state, entropy, login_checker)
        prepare(self.container, configuration, events)
        self.amqp091: Dialect091 = Dialect091(self.container, configuration.limits, properties)
        decoder = DialectDecoder(self.amqp091)
        self.state.streams.decoder = decoder
        self.amqp10: Dialect10 = Dialect10(
            self.container, configuration.amqp10_limits, name, properties, configuration.amqp10
        )
        self.durability: Durability = self.container.durability
        self.state.shared.move_gate = NodeMoveGate(self.container)
        self._answers: Answers = Answers(self.container, self)
        # Why the disk cannot be trusted any more; the server stops when this is not empty.
        self.storage_failure: str = ""
        # Why no tick can be stored any more, though the disk works: an internal error has left what
        # is to be written incomplete. Nothing is confirmed from then on.
        self.breakdown: str = ""
        # None lets every exception through to the caller.
        self.failure_listener: FailureListener | None = None
        self.stored: StoredState | None = None
        # None without a cluster.
        self.member: ClusterMember | None = None
        # None for a server that cannot keep replicas of queues of others.
        self.replicas: QueueReplicas | None = None
        if disk is None:
            put_defaults(self.state, now)
        else:
            self._open_store(disk, decoder, cluster, now)
            if dialler is not None and cluster is None:
                self.replicas = QueueReplicas(self.container, decoder, dialler)
        self.ledger: Ledger | None = None
        if disk is not None and configuration.ledger:
            self.ledger = begin_ledger(self.state, disk, wall, self._answers.member)
        self._alarms: Alarms = Alarms(self.container)
        self.alarms: dict[str, str] = self._alarms.reasons
        self._unfinished: UnfinishedMessages = UnfinishedMessages()
        # What `held_bytes` found last.
        self.last_held_bytes: int = 0
        self.connections: dict[int, Connection] = {}
        self.places: ConnectionPlaces = ConnectionPlaces(self.container, self.connections)
        self._administration: Administration = Administration(self.container, self.connections)
        self.connections_accepted: int = 0
        self.is_stopping: bool = False

    def _open_store(
        self, disk: Disk, decoder: DialectDecoder, cluster: ClusterPlan | None, now: int
    ) -> None:
        prepared = None
        if cluster is not None:
            prepared = prepare_state(self.state, cluster.settings.replicate)
        streams = None if prepared is None else prepared.streams
        container, limits = self.container, self.configuration.store
        entropy = container.entropy
        stored = StoredState(self, disk, self.state, decoder, entropy, now, limits, streams)
        self.stored = stored
        stored.begin(self.durability)
        container.unsettled = self
        container.store_name = stored.store_id.hex()
        if cluster is not None and prepared is not None:
            self.member = join_cluster(cluster, prepared, self, container, stored, disk, now)
            self._answers.member = self.member

    # Connections.

    def connected(
        self,
        transport: Transport,
        peer_host: str,
        peer_is_loopback: bool,
        now: int,
        peer_port: int = 0,
        encryption: Encryption | None = None,
        mechanisms: tuple[str, ...] | None = None,
    ) -> Connection | None:
        """A peer has connected; None when no more are taken. The port is for the log. The mechanisms
        are its listener's; None for those of the configuration.
        """
        is_surplus = self.is_full()
        if self.is_stopping or (is_surplus and not self.places.make_peer_place()):
            return None
        self.connections_accepted += 1
        number = self.connections_accepted
        outgoing = Outgoing(self.container.flush_list, transport)
        peer = Peer(number, peer_host, peer_port, peer_is_loopback, outgoing)
        peer.encryption = encryption
        peer.is_surplus = is_surplus
        peer.mechanisms = self.configuration.mechanisms if mechanisms is None else mechanisms
        connection = Connection(self.amqp091, self.amqp10, peer, now)
        self.connections[number] = connection
        if is_surplus:
            self.places.surplus[number] = connection
        return connection

    def is_full(self, more: int = 0) -> bool:
        """Whether all places of clients are taken, with `more` sockets that are no connections yet."""
        return self.places.client_count() + more >= self.configuration.connections_max

    def lost(self, connection: Connection, now: int) -> None:
        """The transport of a connection is gone."""
        self.places.surplus.pop(connection.number, None)
        if self.connections.pop(connection.number, None) is not None:
            self.container.received_bytes_on_ended += connection.received_bytes
            self.container.sent_bytes_on_ended += connection.outgoing.sent_bytes
        connection.protocol.lost(now)

    def connection_failed(
        self, connection: Connection, doing: str, error: Exception, now: int
    ) -> None:
        """An internal error occurred while this connection was served: it is closed, and no
        other.
        """
        if isinstance(error, DiskError):
            # A message that was paged out cannot be read back: the node must not continue.
            self.storage_failed(str(error))
            return
        listener = self.failure_listener
        if listener is None:
            raise error
        listener.connection_failed(connection, doing, error)
        try:
            connection.protocol.failed(now)
        except Exception as second:
            # What it held may not have been requeued for others.
            connection.outgoing.transport.abort()
            self.failed("ending a connection that had failed", second)

    def failed(self, doing: str, error: Exception) -> None:
        """An internal error that belongs to no single connection."""
        if isinstance(error, DiskError):
            self.storage_failed(str(error))
            return
        listener = self.failure_listener
        if listener is None:
            raise error
        listener.failed(doing, error)

    def break_down(self, reason: str) -> None:
        """No later tick may confirm anything."""
        if not self.breakdown:
            self.breakdown = reason

    def answer_failed(
        self, outgoing: Outgoing | None, doing: str, error: Exception, now: int
    ) -> None:
        """An internal error occurred while the owner of this output was answered."""
        for connection in list(self.connections.values()):
            if connection.outgoing is outgoing:
                self.connection_failed(connection, doing, error, now)
                return
        self.failed(f"answering: {doing}", error)

    # Ticks.

    def has_work(self) -> bool:
        return bool(
            self.state.touched
            or self.container.answer_list
            or self.container.flush_list
            or self.container.turns.waiting
            or not self.state.discarded.is_empty()
            or (self.stored is not None and self.stored.has_work())
            or (self.member is not None and self.member.has_ready(self.durability.durable))
            or (self.ledger is not None and self.ledger.has_work())
        )

    def flush(self, now: int) -> None:
        """End of a tick: dispatch what arrived, confirm it, write every connection's output.

        When the disk failed, nothing of this tick or a later one is sent. Raises when the tick
        could not be stored because of an internal error; then no later one is stored either.
        """
        if self._has_disk_failed():
            return
        if self.breakdown:
            raise RuntimeError(self.breakdown)
        self.durability.begin_tick(now)
        if self.member is not None:
            self.member.begin_tick(self.durability.durable, now)
        self._take_turns(now)
        if self._has_disk_failed():
            return
        self._dispatch(now)
        if self._has_disk_failed():
            return
        self.state.discarded.step()
        try:
            if self.stored is not None:
                self._store_tick(now)
            else:
                # Nothing is written, so nothing waits for it.
                self.container.held_list.clear()
        except DiskError as error:
            self.storage_failed(str(error))
        except Exception as defect:  # another name: compiled, a name has one type in a function
            self.break_down(f"an earlier tick could not be stored: {defect}")
            raise
        self.container.turns.octets = 0
        if self.ledger is not None:
            self._write_ledger(self.ledger, now)
        if self._has_disk_failed():
            return
        self._answers.confirm(now)
        self._answers.write(now)

    def _write_ledger(self, ledger: Ledger, now: int) -> None:
        try:
            if self.member is not None:
                ledger.committed(self.durability.written, self.durability.durable)
            ledger.end_of_tick(now + self.state.wall.offset_ms)
        except Exception as error:
            self.failed("writing the ledger", error)

    def _has_disk_failed(self) -> bool:
        return bool(self.storage_failure)

    def _take_turns(self, now: int) -> None:
        """Continue with the kept input of connections whose turn was over."""
        turns = self.container.turns
        turns.tick += 1
        turns.spent = 0
        if not turns.waiting:
            return
        waiting = turns.waiting
        turns.waiting = []
        for index, turn in enumerate(waiting):
            if turns.spent >= turns.units_max or turns.is_full():
                # These are first in the next tick, before those that have had a turn in this one.
                turns.waiting[0:0] = waiting[index:]
                break
            turn.begin()
            connection = self.connections.get(turn.number)
            if connection is not None:
                try:
                    connection.received(b"", now)
                except Exception as error:
                    self.connection_failed(connection, "reading what its client sent", error, now)
                turn.rest()
        turns.tick += 1
        turns.spent = 0

    def _dispatch(self, now: int) -> None:
        touched = self.state.touched
        if touched:
            queues = touched[:]
            touched.clear()
            for queue in queues:
                try:
                    queue.dispatch(now)
                except Exception as error:
                    self.failed(f"dispatching the messages of queue '{queue.name}'", error)

    def _store_tick(self, now: int) -> None:
        """Write what the tick brought, before anything of it is sent."""
        stored = self.stored
        assert stored is not None, "a node with a disk stores its ticks"
        held_list = self.container.held_list
        stored.end_of_tick(now)
        durability = self.durability
        durability.written = stored.journal.position
        count = self.state.definitions.change_count
        if count != durability.definition_count:
            durability.definition_count = count
            durability.definitions = durability.written
        if held_list:
            for outgoing in held_list:
                outgoing.durable_at = self.durability.written
            held_list.clear()
        if self.member is not None:
            self.member.end_of_tick(durability.written, now)

    def store_tick(self, now: int) -> None:
        try:
            self._store_tick(now)
        except DiskError as error:
            self.storage_failed(str(error))

    def journal_became_durable(self, position: int, now: int) -> None:
        """A flush has covered the journal up to here."""
        if self.member is None:
            self._answers.became_durable(position)
        else:
            self.member.journal_durable(position, now)

    def committed(self, position: int) -> None:
        if position > self.durability.durable:
            self._answers.became_durable(position)

    def close_clients(self, reason: str, now: int) -> None:
        for connection in list(self.connections.values()):
            if not connection.protocol.is_peer():
                if connection.protocol.vhost_name():
                    # Before it is open, nothing was promised, and the close would not be understood
                    # without what begins the conversation.
                    connection.outgoing.drop()
                self._answers.forget(connection.outgoing)
                self._stop(connection, reason, now)
        self.amqp10.links.forget_all(now)
        self._answers.abandon()

    def is_all_durable(self) -> bool:
        """Whether everything that was written would survive a power loss."""
        return self.durability.durable >= self.durability.written

    def storage_failed(self, reason: str) -> None:
        """Nothing more is confirmed: the server stops and does not try again."""
        if not self.storage_failure:
            self.storage_failure = reason

    def unsettled(self) -> list[tuple[MessageQueue, QueueEntry]]:
        """Every unacknowledged delivery."""
        found: list[tuple[MessageQueue, QueueEntry]] = []
        for connection in self.connections.values():
            connection.protocol.add_unsettled(found)
        self.amqp10.links.add_unsettled(found)
        for vhost in self.state.vhosts.values():
            for sink in vhost.sinks.values():
                found.extend([(taken.stage, taken.entry) for taken in sink.taken])
        return found

    def held_bytes(self) -> int:
        """The memory that it holds on behalf of clients; see `held`."""
        self.last_held_bytes = held_bytes(self.state, self.connections.values(), self.amqp10.links)
        return self.last_held_bytes

    def fire_due(self, now: int) -> None:
        """Fire all timers that are due."""
        for _ in range(FAILED_TIMERS_MAX):
            try:
                self.timers.fire_due(now)
            except Exception as error:
                fired = self.timers.fired
                connection = None if fired is None else self.connections.get(fired.connection)
                if connection is None:
                    self.failed("running a timer", error)
                else:
                    self.connection_failed(connection, "running one of its timers", error, now)
            else:
                return

    def sweep(self, now: int, wall: int) -> None:
        """A few times a second: heartbeats, handshake time-outs, the wall clock."""
        self.state.set_wall_offset(wall - now)
        for connection in list(self.connections.values()):
            try:
                connection.protocol.tick(now)
            except Exception as error:
                self.connection_failed(connection, "checking its time-outs", error, now)
        try:
            is_low = bool(self.alarms.get(MEMORY, ""))
            self._unfinished.sweep(self.connections, is_low, self.last_held_bytes, now)
        except Exception as defect:
            self.failed("unblocking a client so that it completes its message", defect)
        self._sweep_ledger(wall, False)
        if self.replicas is not None:
            try:
                self.replicas.tick(now)
            except Exception as another:
                self.failed("following the source of a replica", another)

    def _sweep_ledger(self, wall: int, is_last: bool) -> None:
        if self.ledger is None or self.storage_failure:
            return
        try:
            self.ledger.sweep(wall, is_last)
        except DiskError as error:
            self.storage_failed(str(error))

    # Operations.

    def apply(
        self, command: BrokerCommand | CloseConnection, now: int, actor: Actor = NOBODY
    ) -> Result:
        """What an operator changes: users, permissions, virtual hosts, limits, parameters."""
        return self._administration.apply(command, now, actor)

    def apply_to_vhost(
        self, vhost: str, command: VhostCommand, now: int, actor: Actor = NOBODY
    ) -> Result:
        """Topology, policies and parameters, on behalf of an operator."""
        return self._administration.apply_to_vhost(vhost, command, now, actor)

    def import_steps(self, steps: list[Step], now: int, actor: Actor, origin: str) -> None:
        """Definitions that were rehearsed on this state; `origin` is where they came from."""
        self._administration.import_steps(steps, now, actor, origin)

    def set_alarm(
        self, source: str, reason: str, now: int, figures: dict[str, object] | None = None
    ) -> None:
        """Block publishers for this reason of this source (memory, disk); an empty reason clears
        it, and they are unblocked when no source has one. The figures are for the log.
        """
        if not self._alarms.set(source, reason, figures):
            return
        for connection in list(self.connections.values()):
            try:
                connection.protocol.alarm_changed(now)
            except Exception as error:
                self.connection_failed(connection, "notifying it of an alarm", error, now)

    def intercept_publishes(self, interceptor: PublishInterceptor | None) -> None:
        self.container.interceptor = interceptor
        for connection in list(self.connections.values()):
            connection.protocol.interceptor_changed()

    def stop(self, now: int) -> None:
        """Accept no more connections and close the existing ones."""
        self.is_stopping = True
        if self.member is not None:
            self.member.stop(now)
        if self.replicas is not None:
            self.replicas.stop()
        reason = "broker forced connection closure with reason 'shutdown'"
        for connection in list(self.connections.values()):
            self._stop(connection, reason, now)
        self._sweep_ledger(now + self.state.wall.offset_ms, True)

    def _stop(self, connection: Connection, reason: str, now: int) -> None:
        try:
            connection.stop(reason, now)
        except Exception as error:
            self.connection_failed(connection, "closing it", error, now)
