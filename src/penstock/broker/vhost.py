"""A virtual host: its exchanges, queues, bindings and policies, and every change to them.

A change is a command of `topology`, checked as RabbitMQ checks it and with its texts, and applied
as a whole or refused with nothing changed.

Invariants
- an exclusive queue is in `_exclusive` under its owner, and nowhere once that connection ended;
- a queue that is gone has no bindings left;
- `generation` goes up with every change that can alter a route.
"""

from penstock.broker.arguments import check_queue_arguments, settings_of
from penstock.broker.bound_exchanges import DEFAULT_EXCHANGE, BoundExchanges, check_not_default
from penstock.broker.dead_letter import dead_letter
from penstock.broker.entry import QueueEntry
from penstock.broker.equivalence import check_same_queue
from penstock.broker.errors import NotFound, PreconditionFailed, ResourceLocked
from penstock.broker.exchanges.exchange import Binding
from penstock.broker.names import check_length, check_not_reserved, described
from penstock.broker.policy import Policy, definition_of
from penstock.broker.queues.death import DeathReason
from penstock.broker.queues.queue import Queue
from penstock.broker.timers import Timers
from penstock.broker.topology import (
    DONE,
    NO_CONNECTION,
    BindExchange,
    BindQueue,
    ClearPolicy,
    DeclareExchange,
    DeclareQueue,
    Deleted,
    DeleteExchange,
    DeleteQueue,
    Purged,
    PurgeQueue,
    QueueDeclared,
    Result,
    SetPolicy,
    UnbindExchange,
    UnbindQueue,
    VhostCommand,
)


class VirtualHost(BoundExchanges):
    """One name space of exchanges and queues. Held by `BrokerState`; dialects send it commands."""

    def __init__(self, name: str, timers: Timers) -> None:
        super().__init__(name, timers)
        # -1 is no limit; the operator sets them.
        self.max_queues: int = -1
        self.max_connections: int = -1
        self._exclusive: dict[int, dict[str, Queue]] = {}

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
            return Purged(queue.purge(now))
        if isinstance(command, DeclareExchange):
            return self.declare_exchange(command)
        if isinstance(command, DeleteExchange):
            return self.delete_exchange(command)
        if isinstance(command, BindExchange):
            return self.bind_exchange(command)
        if isinstance(command, UnbindExchange):
            return self.unbind_exchange(command)
        if isinstance(command, SetPolicy):
            self.policies.put(Policy(command))
            self.definitions.vhost_changed(self.name, command)
            return self._policies_changed(now)
        if isinstance(command, ClearPolicy):
            if not self.policies.remove(command.name):
                raise NotFound(f"no policy '{command.name}' in vhost '{self.name}'")
            self.definitions.vhost_changed(self.name, command)
            return self._policies_changed(now)
        self.max_queues = command.max_queues
        self.max_connections = command.max_connections
        self.definitions.vhost_changed(self.name, command)
        return DONE

    # Looking up.

    def queue(self, name: str) -> Queue:
        found = self.queues.get(name)
        if found is None:
            raise NotFound(f"no {described('queue', name, self.name)}")
        return found

    def accessible_queue(self, name: str, connection: int) -> Queue:
        """A queue that exists and is not another connection's exclusive one."""
        queue = self.queue(name)
        if queue.exclusive_owner not in {NO_CONNECTION, connection}:
            raise self._locked(queue)
        return queue

    def _locked(self, queue: Queue) -> ResourceLocked:
        return ResourceLocked(
            "cannot obtain exclusive access to locked "
            f"{described('queue', queue.name, self.name)}. It could be originally declared on "
            "another connection or the exclusive property value does not match that of the "
            "original declaration."
        )

    def listed_bindings(self) -> list[Binding]:
        """All bindings, with those that every queue has to the default exchange."""
        default = self.exchanges[DEFAULT_EXCHANGE]
        found = [Binding(default, queue, None, queue.name, {}) for queue in self.queues.values()]
        found.extend(self.bindings.listed())
        return found

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
        if existing is not None:
            self._check_same_queue(existing, command)
            existing.used(now)
            return self._declared(existing, False)
        what = described("queue", command.name, self.name)
        check_queue_arguments(
            what, command.arguments, command.durable, command.exclusive, command.auto_delete
        )
        if 0 <= self.max_queues <= len(self.queues):
            raise PreconditionFailed(
                f"cannot declare queue '{command.name}': queue limit in vhost '{self.name}' "
                f"({self.max_queues}) is reached"
            )
        return self._declared(self._create_queue(command, now), True)

    def _create_queue(self, command: DeclareQueue, now: int) -> Queue:
        queue_type = settings_of(command.arguments, {}).queue_type.value
        policy = self.policies.of_queue(command.name, queue_type)
        owner = command.connection if command.exclusive else NO_CONNECTION
        assert not command.exclusive or owner != NO_CONNECTION, "an exclusive queue has an owner"
        queue = Queue(
            self,
            command.name,
            # An exclusive queue ends with its connection, so it cannot outlive a restart either.
            command.durable and not command.exclusive,
            owner,
            command.auto_delete,
            settings_of(command.arguments, definition_of(policy)),
            command.arguments,
            now,
        )
        self.queues[command.name] = queue
        if command.exclusive:
            self._exclusive.setdefault(owner, {})[command.name] = queue
        self.generation += 1
        if queue.durable:
            self.definitions.vhost_changed(self.name, command)
        return queue

    def _declared(self, queue: Queue, created: bool) -> QueueDeclared:
        return QueueDeclared(queue.name, queue.message_count, queue.consumer_count, created)

    def _check_same_queue(self, known: Queue, command: DeclareQueue) -> None:
        owner = command.connection if command.exclusive else NO_CONNECTION
        if known.exclusive_owner != owner:
            raise self._locked(known)
        check_same_queue(described("queue", known.name, self.name), known, command)

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

    def _remove_queue(self, queue: Queue, now: int) -> None:
        del self.queues[queue.name]
        self.generation += 1
        owned = self._exclusive.get(queue.exclusive_owner)
        if owned is not None:
            del owned[queue.name]
            if not owned:
                del self._exclusive[queue.exclusive_owner]
        if queue.durable:
            # Before its bindings go: replayed, the deletion takes them along.
            self.definitions.vhost_changed(self.name, DeleteQueue(queue.name))
        self.unbind_all(self.bindings.to_destination(queue))
        # Last, because consumers that hear of it may declare and bind anew.
        queue.deleted(now)

    def queue_unused(self, queue: Queue, now: int) -> None:
        if self.queues.get(queue.name) is queue:
            self._remove_queue(queue, now)

    def connection_ended(self, connection: int, now: int) -> None:
        """Its exclusive queues go with it."""
        for queue in list(self._exclusive.get(connection, {}).values()):
            self._remove_queue(queue, now)

    def remove_everything(self, now: int) -> None:
        """The virtual host itself is deleted."""
        for queue in list(self.queues.values()):
            self._remove_queue(queue, now)

    def dead_letter(self, queue: Queue, entry: QueueEntry, reason: DeathReason, now: int) -> None:
        dead_letter(self, queue, entry, reason, now)

    # Bindings.

    def _bind_queue(self, command: BindQueue) -> Result:
        check_not_default(command.exchange)
        source = self.exchange(command.exchange)
        queue = self.queue(command.queue)
        source.check_binding(command.routing_key, command.arguments)
        self.accessible_queue(command.queue, command.connection)
        return self.add_binding(
            Binding(source, queue, None, command.routing_key, command.arguments)
        )

    def _unbind_queue(self, command: UnbindQueue) -> Result:
        """As in RabbitMQ, what is not there is unbound already."""
        check_not_default(command.exchange)
        source = self.exchanges.get(command.exchange)
        queue = self.queues.get(command.queue)
        if source is None or queue is None:
            return DONE
        wanted = Binding(source, queue, None, command.routing_key, command.arguments)
        known = self.bindings.find(wanted)
        if known is not None:
            self.accessible_queue(command.queue, command.connection)
            if self.durable_binding(known) is not None:
                self.definitions.vhost_changed(self.name, command)
            self.unbind_all([known])
        return DONE

    # Policies.

    def _policies_changed(self, now: int) -> Result:
        for exchange in self.exchanges.values():
            self.set_alternate(exchange)
        # A copy: smaller limits drop messages, whose dead letters may reach anything.
        for queue in list(self.queues.values()):
            policy = self.policies.of_queue(queue.name, queue.settings.queue_type.value)
            queue.apply_settings(settings_of(queue.arguments, definition_of(policy)), now)
        self.generation += 1
        return DONE
