"""A virtual host: its exchanges, queues, bindings and policies, and every change to them.

A change is a command of `topology`, checked as RabbitMQ checks it and with its texts, and applied
as a whole or refused with nothing changed.

Invariants
- an exclusive queue is in `_exclusive` under its owner, and nowhere once that connection ended;
- a queue that is gone has no bindings left;
- `generation` goes up with every change that can alter a route.
"""

from array import array

from penstock.broker.arguments import STREAM, check_queue_arguments, settings_of
from penstock.broker.binding import Bindings
from penstock.broker.bound_exchanges import BoundExchanges, check_not_default
from penstock.broker.changed_arguments import changed_arguments
from penstock.broker.default_queue_type import with_default_type
from penstock.broker.definition_log import DefinitionLog
from penstock.broker.delays.delay_line import DelayLine
from penstock.broker.effective_policy import EffectivePolicies
from penstock.broker.entry import QueueEntry
from penstock.broker.equivalence import check_same_queue, locked
from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.exchanges.partitioned import KIND as PARTITIONED_STREAM
from penstock.broker.exchanges.partitioned import PartitionedStreamExchange
from penstock.broker.making import ObjectMaker
from penstock.broker.move_table import MoveTable
from penstock.broker.names import check_length, check_not_reserved, described
from penstock.broker.parameters import ParameterKey, change_parameter, known_form
from penstock.broker.partitions import PartitionedStream, bindings_of, declarations_of
from penstock.broker.policy import Policies
from penstock.broker.publishing.dead_letter import dead_letter
from penstock.broker.publishing.delayed import PublishWhenDue
from penstock.broker.queue_notes import record_consumer, record_returns, take_note
from penstock.broker.queues.message_queue import DeathReason, MessageQueue, QueueOwner
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.replica_table import ReplicaTable
from penstock.broker.routing_table import RoutingTable
from penstock.broker.shared_services import QueueWatcher, SharedServices
from penstock.broker.sink_table import Sink, SinkTable
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.opening import find_stream
from penstock.broker.topology import (
    DONE,
    NO_CONNECTION,
    AddVhost,
    AdvanceSink,
    BindExchange,
    BindQueue,
    ChangeQueueArguments,
    ChangeStream,
    ClearOperatorPolicy,
    ClearParameter,
    ClearPolicy,
    CommitSink,
    DeclareExchange,
    DeclareQueue,
    Deleted,
    DeleteExchange,
    DeleteQueue,
    NoteConsumer,
    NoteReturns,
    OpenSink,
    Purged,
    PurgeQueue,
    QueueDeclared,
    Result,
    SetOperatorPolicy,
    SetParameter,
    SetPolicy,
    SetVhostLimits,
    UnbindExchange,
    UnbindQueue,
    VhostCommand,
)


class VirtualHost(QueueOwner):
    """One name space of exchanges and queues. Held by `BrokerState`; dialects send it commands."""

    def __init__(self, name: str, shared: SharedServices) -> None:
        super().__init__(name, shared.timers, shared.touched, shared.discarded, shared.death_budget)
        self.shared: SharedServices = shared
        self.routing: RoutingTable = RoutingTable(name, shared)
        self.effective: EffectivePolicies = EffectivePolicies(name)
        self.policies: Policies = self.effective.policies
        self.operator_policies: Policies = self.effective.operator_policies
        self.maker: ObjectMaker = ObjectMaker(shared, self.effective)
        self.bound: BoundExchanges = BoundExchanges(self.routing, self.policies, self.maker)
        self.sink_table: SinkTable = SinkTable()
        self.move_table: MoveTable = MoveTable()
        # What the operator says about it, and keeps with it.
        self.description: str = ""
        self.tags: tuple[str, ...] = ()
        # Of queues that are declared without a type; empty is classic.
        self.default_queue_type: str = ""
        self.parameters: dict[ParameterKey, object] = {}
        self.replica_table: ReplicaTable = ReplicaTable(name, self.parameters, shared)
        # -1 is no limit; the operator sets them.
        self.max_queues: int = -1
        self.max_connections: int = -1
        self._exclusive: dict[int, dict[str, MessageQueue]] = {}
        # The tables of its parts, under the names by which everybody asks for them.
        self.exchanges: dict[str, Exchange] = self.routing.exchanges
        self.queues: dict[str, MessageQueue] = self.routing.queues
        self.bindings: Bindings = self.bound.bindings
        self.sinks: dict[str, Sink] = self.sink_table.sinks
        self.delay_line: DelayLine = self.routing.delay_line
        self.delay_line.due = PublishWhenDue(self.routing)
        self.streams: StreamStore = shared.streams

    @property
    def generation(self) -> int:
        """Goes up with every change that can alter a route."""
        return self.routing.generation

    @property
    def definitions(self) -> DefinitionLog:
        """Where definitions that must outlive the process are recorded."""
        return self.shared.definitions

    @property
    def watcher(self) -> QueueWatcher | None:
        """The observer of every queue; None when there is none."""
        return self.shared.watcher

    def apply(self, command: VhostCommand, now: int) -> Result:
        """Do what the command says or raise a `Refusal`."""
        if isinstance(command, DeclareQueue):
            return self._declare_queue(command, now)
        if isinstance(command, BindQueue):
            return self._bind_queue(command)
        if isinstance(command, UnbindQueue):
            return self._unbind_queue(command)
        if isinstance(command, DeleteQueue):
            return self._delete_queue(command, now)
        if isinstance(command, PurgeQueue):
            queue = self.accessible_queue(command.name, command.connection)
            queue.check_used_here()
            return Purged(queue.purge(now))
        if isinstance(command, ChangeQueueArguments):
            return self._change_arguments(command, now)
        if isinstance(command, DeclareExchange):
            return self._declare_exchange(command, now)
        if isinstance(command, DeleteExchange):
            return self._delete_exchange(command, now)
        if isinstance(command, BindExchange):
            return self.bound.bind_exchange(command)
        if isinstance(command, UnbindExchange):
            return self.bound.unbind_exchange(command)
        if isinstance(command, (SetPolicy, ClearPolicy, SetOperatorPolicy, ClearOperatorPolicy)):
            self.effective.change(command)
            self.definitions.vhost_changed(self.name, command)
            return self._policies_changed(now)
        if isinstance(command, (SetParameter, ClearParameter)):
            return self._change_parameter(command, now)
        if isinstance(command, (OpenSink, AdvanceSink, CommitSink)):
            self.definitions.vhost_changed(self.name, command)
            self.sink_table.change(command)
            return DONE
        if isinstance(command, (NoteConsumer, NoteReturns)):
            take_note(self.queue(command.queue), command)
            return DONE
        if isinstance(command, ChangeStream):
            return self._change_stream(command)
        # Only the virtual host itself and its journal use OpenDelayLine.
        assert isinstance(command, SetVhostLimits), "every other command is handled above"
        self.max_queues = command.max_queues
        self.max_connections = command.max_connections
        self.definitions.vhost_changed(self.name, command)
        return DONE

    def _change_stream(self, command: ChangeStream) -> Result:
        """What the root of the cluster did, or what a snapshot says; the root itself does not."""
        stream = find_stream(self.queues, command.name)
        if stream is not None and stream.values is not None:
            stream.values.apply(command)
        return DONE

    def describe(self, command: AddVhost) -> None:
        """What the operator says about it; what is in it stays."""
        if command.default_queue_type and command.default_queue_type not in self.shared.kinds.types:
            raise PreconditionFailed(
                f"'{command.default_queue_type}' is not a valid default queue type"
            )
        self.description = command.description
        self.tags = command.tags
        self.default_queue_type = command.default_queue_type

    def _change_parameter(self, command: SetParameter | ClearParameter, now: int) -> Result:
        known = known_form(command)
        if known is not command:
            return self.apply(known, now)
        queue = self.queues.get(command.name)
        self.replica_table.check(command, queue)
        change_parameter(self.parameters, command, self.name)
        self.definitions.vhost_changed(self.name, command)
        if queue is not None:
            self.replica_table.look(queue, now)
        return DONE

    # Looking up.

    def exchange(self, name: str) -> Exchange:
        return self.bound.exchange(name)

    def queue(self, name: str) -> MessageQueue:
        found = self.queues.get(name)
        if found is None:
            raise NotFound(f"no {described('queue', name, self.name)}")
        return found

    def accessible_queue(self, name: str, connection: int) -> MessageQueue:
        """A queue that exists and is not another connection's exclusive one."""
        queue = self.queue(name)
        if queue.exclusive_owner not in {NO_CONNECTION, connection}:
            raise locked(described("queue", name, self.name))
        return queue

    # Queues.

    def _declare_queue(self, command: DeclareQueue, now: int) -> Result:
        if command.passive:
            known = self.accessible_queue(command.name, command.connection)
            known.used(now)
            return self._declared(known, False)
        if not command.server_named:
            check_not_reserved("queue", command.name)
        check_length("queue", command.name)
        existing = self.queues.get(command.name)
        if self.default_queue_type:
            command = with_default_type(command, self.default_queue_type, existing)
        if existing is not None:
            check_same_queue(described("queue", existing.name, self.name), existing, command)
            existing.used(now)
            return self._declared(existing, False)
        what = described("queue", command.name, self.name)
        check_queue_arguments(
            what,
            command.arguments,
            command.durable,
            command.exclusive,
            command.auto_delete,
            self.shared.kinds.types,
        )
        if 0 <= self.max_queues <= len(self.queues):
            raise PreconditionFailed(
                f"cannot declare queue '{command.name}': queue limit in vhost '{self.name}' "
                f"({self.max_queues}) is reached"
            )
        return self._declared(self._create_queue(command, now), True)

    def _create_queue(self, command: DeclareQueue, now: int) -> MessageQueue:
        self.replica_table.check_declared(command)
        owner = command.connection if command.exclusive else NO_CONNECTION
        assert not command.exclusive or owner != NO_CONNECTION, "an exclusive queue has an owner"
        queue = self.maker.make_queue(self, command, owner, now)
        self.queues[command.name] = queue
        self.shared.totals.declared()
        if command.exclusive:
            self._exclusive.setdefault(owner, {})[command.name] = queue
        self.routing.changed()
        if self._is_recorded(queue):
            recorded = self.maker.recorded_queue(command, queue)
            self.definitions.vhost_changed(self.name, recorded)
        if self.watcher is not None:
            # It has its journal number now, if it gets one.
            self.watcher.watch(queue)
        self.replica_table.look(queue, now)
        if self.shared.decides:
            queue.begin(now)
        return queue

    def _is_recorded(self, queue: MessageQueue) -> bool:
        return self.definitions.hears(queue.durable, queue.exclusive_owner != NO_CONNECTION)

    def _declared(self, queue: MessageQueue, created: bool) -> QueueDeclared:
        return QueueDeclared(queue.name, queue.message_count, queue.consumer_count, created)

    def _change_arguments(self, command: ChangeQueueArguments, now: int) -> Result:
        """Equal to a declaration with the new arguments, for the messages that are there too."""
        queue = self.accessible_queue(command.name, command.connection)
        arguments = changed_arguments(
            described("queue", queue.name, self.name),
            queue,
            command.arguments,
            self.shared.kinds.types,
        )
        queue.arguments = arguments
        if self._is_recorded(queue):
            self.definitions.vhost_changed(self.name, command)
        self._apply_settings(queue, now)
        return DONE

    def _delete_queue(self, command: DeleteQueue, now: int) -> Result:
        if command.name not in self.queues:
            return Deleted(0)
        queue = self.accessible_queue(command.name, command.connection)
        what = described("queue", queue.name, self.name)
        if command.if_unused and queue.consumer_count:
            raise PreconditionFailed(f"{what} in use")
        if command.if_empty and queue.message_count:
            raise PreconditionFailed(f"{what} not empty")
        count = queue.message_count
        self._remove_queue(queue, now)
        return Deleted(count)

    def _remove_queue(self, queue: MessageQueue, now: int) -> None:
        del self.queues[queue.name]
        self.routing.changed()
        owned = self._exclusive.get(queue.exclusive_owner)
        if owned is not None:
            del owned[queue.name]
            if not owned:
                del self._exclusive[queue.exclusive_owner]
        if self._is_recorded(queue):
            # Before its bindings are removed: replaying the deletion removes them too.
            self.definitions.vhost_changed(self.name, DeleteQueue(queue.name), queue.number)
        self.replica_table.forget(queue)
        self.bound.unbind_all(self.bindings.to_destination(queue))
        # Last, because consumers that hear of it may declare and bind anew.
        queue.deleted(now)
        self.shared.totals.deleted(queue)
        if self.watcher is not None:
            self.watcher.forget(queue)

    def queue_unused(self, queue: MessageQueue, now: int) -> None:
        if self.shared.decides and self.queues.get(queue.name) is queue:
            self._remove_queue(queue, now)

    def first_consumer(self, queue: MessageQueue) -> None:
        record_consumer(self.shared, queue)

    def returned(self, queue: MessageQueue, entries: list[QueueEntry]) -> None:
        record_returns(self.shared, queue, entries)

    def connection_ended(self, connection: int, now: int) -> None:
        """A connection ended: its exclusive queues are deleted."""
        for queue in list(self._exclusive.get(connection, {}).values()):
            self._remove_queue(queue, now)

    def remove_everything(self, now: int) -> None:
        """The virtual host itself is deleted."""
        for queue in list(self.queues.values()):
            self._remove_queue(queue, now)
        self.delay_line.close()

    # Calls from its queues and its journal.

    def decides(self) -> bool:
        return self.shared.decides

    def make_ready_list(self, max_priority: int) -> ReadyList:
        if self.shared.ready_lists is None:
            return super().make_ready_list(max_priority)
        return self.shared.ready_lists.make(max_priority)

    def paged_out_gone(
        self,
        queue: MessageQueue,
        positions: "array[int]",
        locations: "array[int]",
        body_bytes: int,
    ) -> None:
        if queue.journal is not None:
            queue.journal.dequeued_tail(positions, locations, body_bytes)
        if self.shared.ready_lists is not None:
            self.shared.ready_lists.gone(locations)

    def dead_letter(
        self, queue: MessageQueue, entry: QueueEntry, reason: DeathReason, now: int
    ) -> None:
        dead_letter(self.routing, queue, entry, reason, now)

    # Partitioned streams.

    def partitioned_streams(self) -> list[PartitionedStream]:
        return [
            PartitionedStream(exchange)
            for exchange in self.exchanges.values()
            if isinstance(exchange, PartitionedStreamExchange)
        ]

    def _declare_exchange(self, command: DeclareExchange, now: int) -> Result:
        """A partitioned stream comes with its partitions. When definitions are read back, these
        have commands of their own.
        """
        makes_partitions = (
            command.kind == PARTITIONED_STREAM
            and not command.passive
            and command.name not in self.exchanges
            and self.shared.decides
        )
        if makes_partitions:
            self._check_partitions(command)
        result = self.bound.declare_exchange(command)
        if makes_partitions:
            exchange = self.exchanges[command.name]
            assert isinstance(exchange, PartitionedStreamExchange), "its kind says that it is one"
            for declaration in declarations_of(exchange):
                self._declare_queue(declaration, now)
            for binding in bindings_of(exchange):
                self._bind_queue(binding)
        return result

    def _check_partitions(self, command: DeclareExchange) -> None:
        """Raise what declaring the partitions would, before anything is changed."""
        exchange = PartitionedStreamExchange(
            command.name,
            command.kind,
            command.durable,
            command.auto_delete,
            command.internal,
            command.arguments,
        )
        new = 0
        for declaration in declarations_of(exchange):
            known = self.queues.get(declaration.name)
            what = described("queue", declaration.name, self.name)
            if known is not None:
                check_same_queue(what, known, declaration)
                continue
            new += 1
            check_length("queue", declaration.name)
            check_queue_arguments(what, declaration.arguments, True, False, False)
        if 0 <= self.max_queues < len(self.queues) + new:
            raise PreconditionFailed(
                f"cannot declare exchange '{command.name}': queue limit in vhost '{self.name}' "
                f"({self.max_queues}) is reached"
            )

    def _delete_exchange(self, command: DeleteExchange, now: int) -> Result:
        exchange = self.exchanges.get(command.name)
        if not isinstance(exchange, PartitionedStreamExchange) or not self.shared.decides:
            return self.bound.delete_exchange(command)
        doomed = [self.queues[name] for name in exchange.partition_names() if name in self.queues]
        # A queue of another type may have taken a partition's name.
        doomed = [queue for queue in doomed if queue.queue_type is STREAM]
        if command.if_unused and any([queue.consumer_count for queue in doomed]):
            raise PreconditionFailed(f"{described('exchange', exchange.name, self.name)} in use")
        for queue in doomed:
            self._remove_queue(queue, now)
        # The bindings to the partitions are gone; other bindings do not keep the exchange.
        return self.bound.delete_exchange(DeleteExchange(command.name))

    # Bindings.

    def _bind_queue(self, command: BindQueue) -> Result:
        check_not_default(command.exchange)
        source = self.exchange(command.exchange)
        queue = self.queue(command.queue)
        source.check_binding(command.routing_key, command.arguments)
        self.accessible_queue(command.queue, command.connection)
        return self.bound.add_binding(
            Binding(source, queue, None, command.routing_key, command.arguments)
        )

    def _unbind_queue(self, command: UnbindQueue) -> Result:
        """As in RabbitMQ, unbinding a missing binding succeeds."""
        check_not_default(command.exchange)
        source = self.exchanges.get(command.exchange)
        queue = self.queues.get(command.queue)
        if source is None or queue is None:
            return DONE
        wanted = Binding(source, queue, None, command.routing_key, command.arguments)
        known = self.bindings.find(wanted)
        if known is not None:
            self.accessible_queue(command.queue, command.connection)
            if self.bound.recorded_binding(known) is not None:
                self.definitions.vhost_changed(self.name, command)
            self.bound.unbind_all([known])
        return DONE

    # Policies.

    def _policies_changed(self, now: int) -> Result:
        for exchange in self.exchanges.values():
            self.bound.set_alternate(exchange)
        # A copy: smaller limits drop messages, whose dead letters may reach anything.
        for queue in list(self.queues.values()):
            self._apply_settings(queue, now)
        self.routing.changed()
        return DONE

    def _apply_settings(self, queue: MessageQueue, now: int) -> None:
        policy = self.effective.of_queue(queue.name, queue.arguments, queue.queue_type)
        types = self.shared.kinds.types
        queue.apply_settings(settings_of(queue.arguments, policy, types), now)
