"""One server, still sans-IO: connections in, actions out, time as a parameter.

The server's event loop and the simulator both drive it the same way: `connected`, `received` on the
connection, `lost`, then one `flush` per tick; `timers.fire_due` and `sweep` as time passes.
"""

from mypy_extensions import mypyc_attr

from penstock.broker.durability import Durability
from penstock.broker.entry import QueueEntry
from penstock.broker.ledger.ledger import Ledger
from penstock.broker.publishing import PublishInterceptor
from penstock.broker.queues.queue import Queue
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.timers import Timers
from penstock.broker.topology import BrokerCommand, DeleteVhost, Result, VhostCommand
from penstock.dialects.amqp091.container import Container
from penstock.dialects.amqp091.login import server_properties
from penstock.dialects.amqp10.link_registry import LinkRegistry
from penstock.dialects.confirming import Confirming
from penstock.dialects.connection import Connection
from penstock.dialects.decoding import DialectDecoder
from penstock.dialects.logins import LoginChecker
from penstock.dialects.translate import DialectTranslator
from penstock.node.configuration import NodeConfiguration
from penstock.node.held import held_bytes
from penstock.node.stored import StorageOwner, StoredState
from penstock.wire.outgoing import Outgoing
from penstock.world.disk import Disk, DiskError
from penstock.world.entropy import Entropy
from penstock.world.network import Transport


class Node:
    """Held by the world that drives it."""

    def __init__(
        self,
        configuration: NodeConfiguration,
        entropy: Entropy,
        login_checker: LoginChecker,
        now: int,
        wall: int,
        disk: Disk | None = None,
    ) -> None:
        self.configuration: NodeConfiguration = configuration
        self.state: BrokerState = BrokerState(entropy)
        self.state.set_wall_offset(wall - now)
        self.timers: Timers = self.state.timers
        properties = server_properties(
            configuration.version, configuration.platform, configuration.cluster_name
        )
        self.container: Container = Container(
            self.state, entropy, login_checker, configuration.limits, properties
        )
        self.container.translator = DialectTranslator()
        self.container.turns.limit(configuration.turn_units_max, configuration.commit_step_count)
        # Who gives a connection what it has kept for its next turn; the server puts its own here.
        self.receiver: Receiver = Receiver()
        decoder = DialectDecoder(self.container)
        self.state.streams.decoder = decoder
        self.links: LinkRegistry = LinkRegistry(
            self.container,
            configuration.amqp10_limits,
            configuration.cluster_name,
            properties,
            configuration.amqp10,
        )
        self.durability: Durability = self.container.durability
        # Connections whose output waits for the journal.
        self._gated: list[Outgoing] = []
        # Publishers whose answers do; a dictionary for its order.
        self._waiting: dict[Confirming, None] = {}
        # Why the disk cannot be trusted any more; the server stops when this is not empty.
        self.storage_failure: str = ""
        self.stored: StoredState | None = None
        if disk is None:
            put_defaults(self.state, now)
        else:
            self.stored = StoredState(
                NodeStorage(self),
                disk,
                self.state,
                decoder,
                entropy,
                now,
                configuration.store,
            )
            self.durability.written = self.stored.journal.position
            self.durability.safe = self.stored.journal.durable_position
            self.durability.definitions = self.durability.written
        self.ledger: Ledger | None = None
        if disk is not None and configuration.ledger:
            self.ledger = Ledger(self.state, disk, wall)
        self._alarms: dict[str, str] = {}
        # What `held_bytes` found last.
        self.last_held_bytes: int = 0
        self.connections: dict[int, Connection] = {}
        self._connections_accepted: int = 0
        self.is_stopping: bool = False

    # Connections.

    def connected(
        self, transport: Transport, peer_host: str, peer_is_loopback: bool, now: int
    ) -> Connection | None:
        """A peer has connected; None when no more are taken."""
        if self.is_stopping or len(self.connections) >= self.configuration.connections_max:
            return None
        self._connections_accepted += 1
        number = self._connections_accepted
        outgoing = Outgoing(self.container.flush_list, transport)
        connection = Connection(
            self.container, self.links, outgoing, number, peer_host, peer_is_loopback, now
        )
        self.connections[number] = connection
        return connection

    def lost(self, connection: Connection, now: int) -> None:
        """The transport of a connection is gone."""
        connection.lost(now)
        self.connections.pop(connection.number, None)

    # Ticks.

    def has_work(self) -> bool:
        return bool(
            self.state.touched
            or self.container.confirm_list
            or self.container.flush_list
            or self.container.turns.waiting
            or not self.state.discarded.is_empty()
            or (self.stored is not None and self.stored.has_work())
            or (self.ledger is not None and self.ledger.has_work())
        )

    def flush(self, now: int) -> None:
        """End of a tick: dispatch what arrived, confirm it, write every connection's output.

        When the disk failed nobody hears of this tick, nor of any later one.
        """
        if self.storage_failure:
            return
        self.state.discarded.step()
        try:
            if not self._take_turns(now):
                return
            self._dispatch(now)
            if self.stored is not None:
                self._store(self.stored)
            else:
                # Nothing is written, so nobody waits for it.
                self.container.gate_list.clear()
            if self.ledger is not None:
                self.ledger.end_of_tick(now + self.state.wall.offset_ms)
        except DiskError as error:
            self.storage_failed(str(error))
            return
        confirm_list = self.container.confirm_list
        if confirm_list:
            answering = confirm_list[:]
            # Cleared first: one that has to look again lists itself for the next tick.
            confirm_list.clear()
            for confirms in answering:
                confirms.flush()
                if confirms.is_waiting():
                    self._waiting[confirms] = None
        flush_list = self.container.flush_list
        if flush_list:
            pending = flush_list[:]
            flush_list.clear()
            safe = self.durability.safe
            for outgoing in pending:
                if outgoing.gate > safe:
                    self._gated.append(outgoing)
                else:
                    outgoing.flush()

    def _take_turns(self, now: int) -> bool:
        """Connections that have spent what a tick may cost go on with what they said then. False
        when the disk failed meanwhile.
        """
        turns = self.container.turns
        turns.tick += 1
        turns.spent = 0
        if not turns.waiting:
            return True
        waiting = turns.waiting
        turns.waiting = []
        for index, turn in enumerate(waiting):
            if turns.spent >= turns.units_max:
                # First in the next tick, before those that have had a turn in this one.
                turns.waiting[0:0] = waiting[index:]
                break
            turn.begin()
            connection = self.connections.get(turn.number)
            if connection is not None:
                self.receiver.received(connection, b"", now)
                turn.rest()
        turns.tick += 1
        turns.spent = 0
        return not self.storage_failure

    def _dispatch(self, now: int) -> None:
        touched = self.state.touched
        if touched:
            queues = touched[:]
            touched.clear()
            for queue in queues:
                queue.dispatch(now)

    def _store(self, stored: "StoredState") -> None:
        """Write what the tick brought, before anybody hears of it."""
        gate_list = self.container.gate_list
        stored.end_of_tick()
        durability = self.durability
        durability.written = stored.journal.position
        count = self.state.definitions.change_count
        if count != durability.definition_count:
            durability.definition_count = count
            durability.definitions = durability.written
        if gate_list:
            for outgoing in gate_list:
                outgoing.gate = self.durability.written
            gate_list.clear()

    def journal_is_safe(self, position: int) -> None:
        """A flush has covered the journal up to here."""
        self.durability.safe = position
        waiting = self._waiting
        self._waiting = {}
        for confirms in waiting:
            confirms.list_again()
        gated = self._gated
        self._gated = []
        for outgoing in gated:
            self.container.flush_list.append(outgoing)

    def is_all_safe(self) -> bool:
        """Whether everything that was written would survive a power loss."""
        return self.durability.safe >= self.durability.written

    def storage_failed(self, reason: str) -> None:
        """Nothing more is promised: the server stops and does not try again."""
        if not self.storage_failure:
            self.storage_failure = reason

    def unsettled(self) -> list[tuple[Queue, QueueEntry]]:
        """Everything that is out with consumers."""
        found: list[tuple[Queue, QueueEntry]] = []
        for connection in self.connections.values():
            connection.add_unsettled(found)
        self.links.add_unsettled(found)
        for vhost in self.state.vhosts.values():
            for sink in vhost.sinks.values():
                found.extend([(taken.stage, taken.entry) for taken in sink.taken])
        return found

    def held_bytes(self) -> int:
        """What clients have it keep in memory; see `held`."""
        self.last_held_bytes = held_bytes(self.state, self.connections.values(), self.links)
        return self.last_held_bytes

    def sweep(self, now: int, wall: int) -> None:
        """A few times a second: heartbeats, handshake time-outs, the wall clock."""
        self.state.set_wall_offset(wall - now)
        for connection in list(self.connections.values()):
            connection.tick(now)
        self._sweep_ledger(wall, False)

    def _sweep_ledger(self, wall: int, is_last: bool) -> None:
        if self.ledger is None or self.storage_failure:
            return
        try:
            self.ledger.sweep(wall, is_last)
        except DiskError as error:
            self.storage_failed(str(error))

    # Operations.

    def apply(self, command: BrokerCommand, now: int) -> Result:
        """Users, permissions and virtual hosts. What connections have resolved is forgotten."""
        result = self.state.apply(command, now)
        for principal in self.container.principals.values():
            principal.targets.clear()
        if isinstance(command, DeleteVhost):
            for connection in list(self.connections.values()):
                if connection.vhost_name() == command.name:
                    connection.stop(f"vhost '{command.name}' is deleted", now)
        return result

    def apply_to_vhost(self, vhost: str, command: VhostCommand, now: int) -> Result:
        """Topology and policies, on behalf of an operator."""
        return self.state.vhost(vhost).apply(command, now)

    def set_alarm(self, source: str, reason: str, now: int) -> None:
        """Block publishers for this reason of this source (memory, disk); an empty reason takes it
        back, and they go on when no source has one.
        """
        if self._alarms.get(source, "") == reason:
            return
        self._alarms[source] = reason
        alarm = ", ".join([reason for reason in self._alarms.values() if reason])
        if alarm == self.container.alarm:
            return
        self.container.alarm = alarm
        for connection in list(self.connections.values()):
            connection.alarm_changed(now)

    def intercept_publishes(self, interceptor: PublishInterceptor | None) -> None:
        self.container.interceptor = interceptor
        for connection in list(self.connections.values()):
            connection.update_is_plain()

    def stop(self, now: int) -> None:
        """Take no more connections and close those there are."""
        self.is_stopping = True
        reason = "broker forced connection closure with reason 'shutdown'"
        for connection in list(self.connections.values()):
            connection.stop(reason, now)
        self._sweep_ledger(now + self.state.wall.offset_ms, True)


@mypyc_attr(allow_interpreted_subclasses=True)
class Receiver:
    """Gives octets to a connection. A world that has more to do then subclasses it."""

    def received(self, connection: Connection, data: bytes, now: int) -> None:
        connection.received(data, now)


class NodeStorage(StorageOwner):
    """The node as its storage sees it."""

    def __init__(self, node: Node) -> None:
        self._node: Node = node

    def journal_is_safe(self, position: int) -> None:
        self._node.journal_is_safe(position)

    def storage_failed(self, reason: str) -> None:
        self._node.storage_failed(reason)

    def unsettled(self) -> list[tuple[Queue, QueueEntry]]:
        return self._node.unsettled()
