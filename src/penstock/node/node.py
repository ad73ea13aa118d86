"""One server, still sans-IO: connections in, actions out, time as a parameter.

The server's event loop and the simulator both drive it the same way: `connected`, `received` on the
connection, `lost`, then one `flush` per tick; `timers.fire_due` and `sweep` as time passes.
"""

from penstock.broker.publishing import PublishInterceptor
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.timers import Timers
from penstock.broker.topology import BrokerCommand, DeleteVhost, Result, VhostCommand
from penstock.dialects.amqp091.connection import Connection, ConnectionOwner
from penstock.dialects.amqp091.container import Container, LoginChecker
from penstock.dialects.amqp091.login import server_properties
from penstock.node.configuration import NodeConfiguration
from penstock.world.entropy import Entropy
from penstock.world.network import Transport


class Node(ConnectionOwner):
    """Held by the world that drives it."""

    def __init__(
        self,
        configuration: NodeConfiguration,
        entropy: Entropy,
        login_checker: LoginChecker,
        now: int,
        wall: int,
    ) -> None:
        self.configuration: NodeConfiguration = configuration
        self.state: BrokerState = BrokerState(entropy)
        self.state.set_wall_offset(wall - now)
        put_defaults(self.state, now)
        self.timers: Timers = self.state.timers
        self.container: Container = Container(
            self.state,
            entropy,
            login_checker,
            configuration.limits,
            server_properties(
                configuration.version, configuration.platform, configuration.cluster_name
            ),
        )
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
        connection = Connection(
            self.container, self, transport, number, peer_host, peer_is_loopback, now
        )
        self.connections[number] = connection
        return connection

    def lost(self, connection: Connection, now: int) -> None:
        """The transport of a connection is gone."""
        connection.lost(now)
        self.connections.pop(connection.number, None)

    def connection_ended(self, number: int, now: int) -> None:
        """The protocol is over; the transport may still hold what is to be said last."""

    # Ticks.

    def has_work(self) -> bool:
        return bool(self.state.touched or self.container.confirm_list or self.container.flush_list)

    def flush(self, now: int) -> None:
        """End of a tick: dispatch what arrived, confirm it, write every connection's output."""
        touched = self.state.touched
        if touched:
            queues = touched[:]
            touched.clear()
            for queue in queues:
                queue.dispatch(now)
        confirm_list = self.container.confirm_list
        if confirm_list:
            for confirms in confirm_list:
                confirms.flush()
            confirm_list.clear()
        flush_list = self.container.flush_list
        if flush_list:
            pending = flush_list[:]
            flush_list.clear()
            for outgoing in pending:
                outgoing.flush()

    def sweep(self, now: int, wall: int) -> None:
        """A few times a second: heartbeats, handshake time-outs, the wall clock."""
        self.state.set_wall_offset(wall - now)
        for connection in list(self.connections.values()):
            connection.tick(now)

    # Operations.

    def apply(self, command: BrokerCommand, now: int) -> Result:
        """Users, permissions and virtual hosts. What connections have resolved is forgotten."""
        result = self.state.apply(command, now)
        for principal in self.container.principals.values():
            principal.targets.clear()
        if isinstance(command, DeleteVhost):
            for connection in list(self.connections.values()):
                opened = connection.principal
                if opened is not None and opened.vhost.name == command.name:
                    connection.stop(f"vhost '{command.name}' is deleted", now)
        return result

    def apply_to_vhost(self, vhost: str, command: VhostCommand, now: int) -> Result:
        """Topology and policies, on behalf of an operator."""
        return self.state.vhost(vhost).apply(command, now)

    def set_alarm(self, reason: str, now: int) -> None:
        """Block publishers for this reason; an empty reason lets them go on."""
        if self.container.alarm == reason:
            return
        self.container.alarm = reason
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
