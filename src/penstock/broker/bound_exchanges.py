"""The exchanges of a virtual host and the bindings between them: the half of it without queues.

Invariants
- an exchange that is gone has no bindings left at either end;
- an auto-delete exchange that ever had a binding leaving it has one now;
- `generation` goes up with every change that can alter a route.
"""

from typing import Final

from penstock.broker.binding import Bindings
from penstock.broker.equivalence import ALTERNATE_ARGUMENT, check_same_exchange
from penstock.broker.errors import AccessRefused, NotFound, PreconditionFailed
from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.exchanges.kinds import (
    DIRECT,
    FANOUT,
    HEADERS,
    TOPIC,
    check_kind,
    make_exchange,
)
from penstock.broker.field_types import type_name
from penstock.broker.making import ObjectMaker, check_exchange_level
from penstock.broker.names import RESERVED_PREFIX, check_length, check_not_reserved, described
from penstock.broker.policy import Policies, definition_of
from penstock.broker.routing_table import RoutingTable
from penstock.broker.topology import (
    DONE,
    NO_CONNECTION,
    BindExchange,
    BindQueue,
    DeclareExchange,
    DeleteExchange,
    Result,
    UnbindExchange,
)

DEFAULT_EXCHANGE: Final = ""
TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"

_PREDECLARED: Final = (
    (DEFAULT_EXCHANGE, DIRECT),
    ("amq.direct", DIRECT),
    ("amq.fanout", FANOUT),
    ("amq.topic", TOPIC),
    ("amq.headers", HEADERS),
    ("amq.match", HEADERS),
    (TRACE_EXCHANGE, TOPIC),
)


class BoundExchanges:
    """Held by a virtual host, which sends it commands."""

    def __init__(self, routing: RoutingTable, policies: Policies, maker: ObjectMaker) -> None:
        self._routing: RoutingTable = routing
        self._policies: Policies = policies
        self._maker: ObjectMaker = maker
        # Of the virtual host.
        self.name: str = routing.name
        self.exchanges: dict[str, Exchange] = routing.exchanges
        self.bindings: Bindings = Bindings()
        for exchange, kind in _PREDECLARED:
            internal = exchange == TRACE_EXCHANGE
            self.exchanges[exchange] = make_exchange(exchange, kind, True, False, internal, {})

    def exchange(self, name: str) -> Exchange:
        found = self.exchanges.get(name)
        if found is None:
            raise NotFound(f"no {described('exchange', name, self.name)}")
        return found

    def declare_exchange(self, command: DeclareExchange) -> Result:
        if not command.passive:
            check_kind(command.kind)
        check_not_default(command.name)
        if command.passive:
            self.exchange(command.name)
            return DONE
        known = self.exchanges.get(command.name)
        if known is not None:
            check_same_exchange(described("exchange", known.name, self.name), known, command)
            return DONE
        check_not_reserved("exchange", command.name)
        check_length("exchange", command.name)
        alternate = command.arguments.get(ALTERNATE_ARGUMENT)
        if alternate is not None and not isinstance(alternate, str):
            raise PreconditionFailed(
                f"invalid type '{type_name(alternate)}' for arg '{ALTERNATE_ARGUMENT}' "
                f"in {described('exchange', command.name, self.name)}"
            )
        check_exchange_level(described("exchange", command.name, self.name), command)
        exchange = self._maker.make_exchange(command)
        self.exchanges[command.name] = exchange
        self.set_alternate(exchange)
        self._routing.changed()
        if self._routing.definitions.hears(exchange.durable):
            recorded = self._maker.recorded_exchange(command, exchange)
            self._routing.definitions.vhost_changed(self.name, recorded)
        return DONE

    def delete_exchange(self, command: DeleteExchange) -> Result:
        check_not_default(command.name)
        if command.name.startswith(RESERVED_PREFIX):
            what = described("exchange", command.name, self.name)
            raise AccessRefused(f"deletion of system {what} not allowed")
        exchange = self.exchanges.get(command.name)
        if exchange is None:
            return DONE
        if command.if_unused and self.bindings.is_used(exchange):
            raise PreconditionFailed(f"{described('exchange', exchange.name, self.name)} in use")
        self._remove_exchange(exchange)
        return DONE

    def _remove_exchange(self, exchange: Exchange) -> None:
        # A list that grows while it is walked, and no recursion: a client can chain as many
        # auto-delete exchanges as it likes.
        doomed = [exchange]
        for current in doomed:
            del self.exchanges[current.name]
            if self._routing.definitions.hears(current.durable):
                self._routing.definitions.vhost_changed(self.name, DeleteExchange(current.name))
            for binding in self.bindings.from_source(current):
                self.bindings.remove(binding)
            doomed.extend(self._remove_bindings(self.bindings.to_destination(current)))
        self._routing.changed()

    def _remove_bindings(self, gone: list[Binding]) -> list[Exchange]:
        """Returns the auto-delete exchanges that lost their last outgoing binding, each once.

        On a backup, and while definitions are read back, it returns none: bindings to transient
        objects may have kept them, and otherwise their deletion was recorded too.
        """
        unused: dict[Exchange, None] = {}
        for binding in gone:
            self.bindings.remove(binding)
            source = binding.source
            if not self._routing.shared.decides:
                continue
            if source.auto_delete and not self.bindings.is_used(source):
                unused[source] = None
        return list(unused)

    def unbind_all(self, gone: list[Binding]) -> None:
        """Take away bindings; an auto-delete exchange goes with the last one that left it."""
        for exchange in self._remove_bindings(gone):
            # It may have gone with one before it in this list.
            if self.exchanges.get(exchange.name) is exchange:
                self._remove_exchange(exchange)
        self._routing.changed()

    def bind_exchange(self, command: BindExchange) -> Result:
        check_not_default(command.source)
        check_not_default(command.destination)
        source = self.exchange(command.source)
        destination = self.exchange(command.destination)
        source.check_binding(command.routing_key, command.arguments)
        return self.add_binding(
            Binding(source, None, destination, command.routing_key, command.arguments)
        )

    def add_binding(self, binding: Binding) -> Result:
        if self.bindings.add(binding):
            self._routing.changed()
            recorded = self.recorded_binding(binding)
            if recorded is not None:
                self._routing.definitions.vhost_changed(self.name, recorded)
        return DONE

    def recorded_binding(self, binding: Binding) -> BindQueue | BindExchange | None:
        """The command that restores a binding after a restart; None when one of its ends is not
        restored.
        """
        definitions = self._routing.definitions
        if not definitions.hears(binding.source.durable):
            return None
        queue = binding.destination_queue
        if queue is not None:
            if not definitions.hears(queue.durable, queue.exclusive_owner != NO_CONNECTION):
                return None
            return BindQueue(
                queue.name, binding.source.name, binding.routing_key, binding.arguments
            )
        exchange = binding.destination_exchange
        assert exchange is not None, "a binding has one destination"
        if not definitions.hears(exchange.durable):
            return None
        return BindExchange(
            exchange.name, binding.source.name, binding.routing_key, binding.arguments
        )

    def unbind_exchange(self, command: UnbindExchange) -> Result:
        check_not_default(command.source)
        check_not_default(command.destination)
        source = self.exchanges.get(command.source)
        destination = self.exchanges.get(command.destination)
        if source is None or destination is None:
            return DONE
        wanted = Binding(source, None, destination, command.routing_key, command.arguments)
        known = self.bindings.find(wanted)
        if known is not None:
            if self.recorded_binding(known) is not None:
                self._routing.definitions.vhost_changed(self.name, command)
            self.unbind_all([known])
        return DONE

    def set_alternate(self, exchange: Exchange) -> None:
        """The argument wins over the policy."""
        given = exchange.arguments.get(ALTERNATE_ARGUMENT)
        if not isinstance(given, str):
            policy = self._policies.of_exchange(exchange.name)
            given = definition_of(policy).get(ALTERNATE_ARGUMENT)
        exchange.alternate_name = given if isinstance(given, str) else None


def check_not_default(name: str) -> None:
    if not name:
        raise AccessRefused("operation not permitted on the default exchange")
