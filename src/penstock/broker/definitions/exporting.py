"""Writing a broker's state as definitions in RabbitMQ's JSON form.

What RabbitMQ writes is written: everything but messages, exclusive queues and their bindings, and
what every virtual host has by itself. Rows are sorted, so that two exports can be compared.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from decimal import Decimal
from heapq import merge
from typing import Final, TypeVar

from penstock.broker.arguments import TYPE_ARGUMENT
from penstock.broker.bound_exchanges import DEFAULT_EXCHANGE
from penstock.broker.definitions.operator_rows import MAX_CHANNELS
from penstock.broker.definitions.users import SCRAM_KEYS, exported_hash
from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.internal_queues import is_internal
from penstock.broker.names import RESERVED_PREFIX
from penstock.broker.parameters import (
    LIMITS_COMPONENT,
    LIMITS_NAME,
    MAX_CONNECTIONS,
    MAX_QUEUES,
    OPERATOR_POLICY_COMPONENT,
)
from penstock.broker.policy import Policies
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.state import BrokerState
from penstock.broker.topology import NO_CONNECTION
from penstock.broker.vhost import VirtualHost

# The release of RabbitMQ whose form this is; its tools look for it.
FORM: Final = "3.10.8"

# Sorting ten thousand bindings takes some milliseconds, so an export in steps sorts parts of this
# length, each in a step of its own, and merges them.
SORTED_PER_STEP: Final = 1_000

_Row = dict[str, object]
_Sorted = TypeVar("_Sorted")
_Rank = tuple[str, str, bool, str, str]


def export(state: BrokerState) -> dict[str, object]:
    """The definitions of the whole broker."""
    vhosts = [state.vhosts[name] for name in sorted(state.vhosts)]
    definitions = _head(state, vhosts)
    definitions.update(_contents(vhosts, named=True))
    return definitions


def _head(state: BrokerState, vhosts: list[VirtualHost]) -> dict[str, object]:
    """What is in no virtual host."""
    return {
        "rabbit_version": FORM,
        "rabbitmq_version": FORM,
        "product_name": "Penstock",
        "users": _users(state),
        "vhosts": [_vhost_row(vhost) for vhost in vhosts],
        "permissions": _permissions(state),
        "topic_permissions": _topic_permissions(state),
        "global_parameters": [
            {"name": name, "value": state.global_parameters[name]}
            for name in sorted(state.global_parameters)
        ],
    }


def export_vhost(state: BrokerState, name: str) -> dict[str, object]:
    """The definitions of one virtual host, to be imported into any. Refuses an unknown name."""
    definitions: dict[str, object] = {"rabbit_version": FORM, "rabbitmq_version": FORM}
    definitions.update(_contents([state.vhost(name)], named=False))
    return definitions


def export_steps(
    state: BrokerState, name: str | None, row_count: int
) -> Generator[None, None, dict[str, object]]:
    """Of the whole broker or of one virtual host, with a pause after so many rows each. What is
    declared or deleted in a pause may be in it or not.
    """
    if name is None:
        vhosts = [state.vhosts[known] for known in sorted(state.vhosts)]
        definitions = _head(state, vhosts)
    else:
        vhosts = [state.vhost(name)]
        definitions = {"rabbit_version": FORM, "rabbitmq_version": FORM}
    yield
    parameters: list[_Row] = []
    policies: list[_Row] = []
    tables: list[list[_Row]] = [[], [], []]
    count = 0
    for vhost in vhosts:
        place: _Row = {"vhost": vhost.name} if name is None else {}
        parameters.extend([{"vhost": vhost.name, **row} for row in parameter_rows(vhost)])
        policies.extend([{"vhost": vhost.name, **row} for row in _policies(vhost.policies)])
        yield
        queues = yield from _sorted_parts(list(vhost.queues.values()), _name_of)
        exchanges = yield from _sorted_parts(list(vhost.exchanges.values()), _exchange_name)
        bindings = yield from _sorted_parts(vhost.bindings.listed(), _rank)
        rows_of = [
            _queues(vhost, merge(*queues, key=_name_of)),
            _exchanges(merge(*exchanges, key=_exchange_name)),
            _bindings(merge(*bindings, key=_rank)),
        ]
        for table, rows in zip(tables, rows_of, strict=True):
            for row in rows:
                table.append({**place, **row})
                count += 1
                if count % row_count == 0:
                    yield
    definitions["parameters"] = parameters
    definitions["policies"] = policies
    definitions["queues"], definitions["exchanges"], definitions["bindings"] = tables
    return definitions


def _sorted_parts(
    things: list[_Sorted], key: "Callable[[_Sorted], str] | Callable[[_Sorted], _Rank]"
) -> Generator[None, None, list[list[_Sorted]]]:
    parts: list[list[_Sorted]] = []
    for begin in range(0, len(things), SORTED_PER_STEP):
        parts.append(sorted(things[begin : begin + SORTED_PER_STEP], key=key))
        yield
    return parts


def _contents(vhosts: list[VirtualHost], named: bool) -> dict[str, object]:
    parameters: list[_Row] = []
    policies: list[_Row] = []
    queues: list[_Row] = []
    exchanges: list[_Row] = []
    bindings: list[_Row] = []
    for vhost in vhosts:
        place: _Row = {"vhost": vhost.name} if named else {}
        # RabbitMQ names the virtual host in these rows anyway.
        parameters.extend([{"vhost": vhost.name, **row} for row in parameter_rows(vhost)])
        policies.extend([{"vhost": vhost.name, **row} for row in _policies(vhost.policies)])
        queues.extend(
            [
                {**place, **row}
                for row in _queues(vhost, sorted(vhost.queues.values(), key=_name_of))
            ]
        )
        exchanges.extend(
            [
                {**place, **row}
                for row in _exchanges(sorted(vhost.exchanges.values(), key=_exchange_name))
            ]
        )
        bindings.extend(
            [{**place, **row} for row in _bindings(sorted(vhost.bindings.listed(), key=_rank))]
        )
    return {
        "parameters": parameters,
        "policies": policies,
        "queues": queues,
        "exchanges": exchanges,
        "bindings": bindings,
    }


def _users(state: BrokerState) -> list[_Row]:
    rows: list[_Row] = []
    by_name = {user.name: user for user in state.users.listed()}
    for name in sorted(by_name):
        user = by_name[name]
        password_hash, algorithm = exported_hash(user.password_hash)
        row: _Row = {
            "name": user.name,
            "password_hash": password_hash,
            "hashing_algorithm": algorithm,
            "tags": list(user.tags),
            "limits": _user_limits(state, name),
        }
        if user.scram_keys:
            row[SCRAM_KEYS] = user.scram_keys
        rows.append(row)
    return rows


def _user_limits(state: BrokerState, name: str) -> _Row:
    limits = state.user_limits.of(name)
    row: _Row = {}
    if limits.max_connections >= 0:
        row[MAX_CONNECTIONS] = limits.max_connections
    if limits.max_channels >= 0:
        row[MAX_CHANNELS] = limits.max_channels
    return row


def _vhost_row(vhost: VirtualHost) -> _Row:
    """Beside the name where an older RabbitMQ looks for it, in `metadata` where a later one does."""
    about: _Row = {}
    if vhost.description or vhost.tags or vhost.default_queue_type:
        about = {"description": vhost.description, "tags": list(vhost.tags)}
        if vhost.default_queue_type:
            about["default_queue_type"] = vhost.default_queue_type
        about["metadata"] = dict(about)
    return {"name": vhost.name, **about}


def _topic_permissions(state: BrokerState) -> list[_Row]:
    rows: list[_Row] = []
    granted = {
        (access.vhost, access.user, access.exchange): access
        for access in state.topic_access.listed()
    }
    for key in sorted(granted):
        access = granted[key]
        rows.append(
            {
                "user": access.user,
                "vhost": access.vhost,
                "exchange": access.exchange,
                "write": access.write,
                "read": access.read,
            }
        )
    return rows


def _permissions(state: BrokerState) -> list[_Row]:
    rows: list[_Row] = []
    granted = {(access.vhost, access.user): access for access in state.access.listed()}
    for key in sorted(granted):
        access = granted[key]
        rows.append(
            {
                "user": access.user,
                "vhost": access.vhost,
                "configure": access.configure,
                "write": access.write,
                "read": access.read,
            }
        )
    return rows


def parameter_rows(vhost: VirtualHost) -> list[_Row]:
    """What RabbitMQ calls the parameters of a virtual host, its limits and operator policies with
    them; without its name.
    """
    found: dict[tuple[str, str], object] = dict(vhost.parameters)
    limits: _Row = {}
    if vhost.max_connections >= 0:
        limits[MAX_CONNECTIONS] = vhost.max_connections
    if vhost.max_queues >= 0:
        limits[MAX_QUEUES] = vhost.max_queues
    if limits:
        found[(LIMITS_COMPONENT, LIMITS_NAME)] = limits
    for policy in _policies(vhost.operator_policies):
        name = policy.pop("name")
        assert isinstance(name, str), "written below"
        found[(OPERATOR_POLICY_COMPONENT, name)] = policy
    return [
        {"component": component, "name": name, "value": found[(component, name)]}
        for component, name in sorted(found)
    ]


def _policies(policies: Policies) -> list[_Row]:
    by_name = {policy.name: policy for policy in policies.listed()}
    return [
        {
            "name": name,
            "pattern": by_name[name].pattern,
            "apply-to": by_name[name].apply_to.value,
            "definition": exported_table(by_name[name].definition),
            "priority": by_name[name].priority,
        }
        for name in sorted(by_name)
    ]


def _queues(vhost: VirtualHost, queues: Iterable[MessageQueue]) -> Iterator[_Row]:
    """`queues` are not the virtual host's own table: there may be pauses between the rows."""
    for queue in queues:
        if queue.exclusive_owner == NO_CONNECTION and not is_internal(queue.name, queue.arguments):
            yield {
                "name": queue.name,
                "durable": queue.durable,
                "auto_delete": queue.auto_delete,
                "arguments": exported_table(_typed(vhost, queue)),
            }


def _name_of(queue: MessageQueue) -> str:
    return queue.name


def _typed(vhost: VirtualHost, queue: MessageQueue) -> dict[str, object]:
    """Where a type is not said, it must not become the default one when this is imported."""
    if not vhost.default_queue_type or TYPE_ARGUMENT in queue.arguments:
        return queue.arguments
    return {**queue.arguments, TYPE_ARGUMENT: queue.queue_type.value}


def _exchanges(exchanges: Iterable[Exchange]) -> Iterator[_Row]:
    for exchange in exchanges:
        name = exchange.name
        if name == DEFAULT_EXCHANGE or name.startswith(RESERVED_PREFIX):
            continue
        yield {
            "name": name,
            "type": exchange.kind,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": exported_table(exchange.arguments),
        }


def _exchange_name(exchange: Exchange) -> str:
    return exchange.name


def _bindings(bindings: Iterable[Binding]) -> Iterator[_Row]:
    for binding in bindings:
        queue = binding.destination_queue
        if queue is not None and queue.exclusive_owner != NO_CONNECTION:
            continue
        yield {
            "source": binding.source.name,
            "destination": binding.destination_name,
            "destination_type": "exchange" if queue is None else "queue",
            "routing_key": binding.routing_key,
            "arguments": exported_table(binding.arguments),
        }


def _rank(binding: Binding) -> _Rank:
    return (
        binding.source.name,
        binding.destination_name,
        binding.destination_queue is None,
        binding.routing_key,
        repr(sorted(binding.arguments.items(), key=_first)),
    )


def _first(item: tuple[str, object]) -> str:
    return item[0]


def exported_table(table: dict[str, object]) -> dict[str, object]:
    return {name: _exported_value(value) for name, value in table.items()}


def _exported_value(value: object) -> object:
    """JSON knows fewer types than a field table: as in RabbitMQ a time becomes its seconds, a
    decimal a number, octets a text.
    """
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, dict):
        return exported_table(value)
    if isinstance(value, list):
        return [_exported_value(member) for member in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode(errors="surrogateescape")
    if isinstance(value, Decimal):
        return float(value)
    # A timestamp, which every dialect has its own class for.
    seconds = getattr(value, "seconds", None)
    return seconds if isinstance(seconds, int) else str(value)
