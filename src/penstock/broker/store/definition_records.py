"""Definitions as JSON: one change, or everything there is."""

import dataclasses
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.header_values import Long, Timestamp
from penstock.broker.names import RESERVED_PREFIX
from penstock.broker.queue_notes import counts_out, notes_of
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.replication_level import ReplicationLevel
from penstock.broker.state import BrokerState
from penstock.broker.streams.stream import as_stream
from penstock.broker.topology import (
    NO_CONNECTION,
    AddVhost,
    AdvanceSink,
    BindExchange,
    BindQueue,
    BrokerCommand,
    ChangeQueueArguments,
    ChangeStream,
    ClearGlobalParameter,
    ClearOperatorPolicy,
    ClearParameter,
    ClearPermissions,
    ClearPolicy,
    ClearTopicPermissions,
    CommitSink,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    NoteConsumer,
    NoteReturns,
    NumberFrom,
    OpenDelayLine,
    OpenSink,
    PutUser,
    SetGlobalParameter,
    SetOperatorPolicy,
    SetParameter,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetUserLimits,
    SetVhostLimits,
    UnbindExchange,
    UnbindQueue,
    VhostCommand,
)
from penstock.broker.vhost import VirtualHost

_COMMANDS = {
    command.__name__: command
    for command in (
        AddVhost,
        AdvanceSink,
        BindExchange,
        BindQueue,
        ChangeQueueArguments,
        ChangeStream,
        ClearGlobalParameter,
        ClearOperatorPolicy,
        ClearParameter,
        ClearPermissions,
        ClearPolicy,
        ClearTopicPermissions,
        CommitSink,
        DeclareExchange,
        DeclareQueue,
        DeleteExchange,
        DeleteQueue,
        DeleteUser,
        DeleteVhost,
        NoteConsumer,
        NoteReturns,
        NumberFrom,
        OpenDelayLine,
        OpenSink,
        PutUser,
        SetGlobalParameter,
        SetOperatorPolicy,
        SetParameter,
        SetPermissions,
        SetPolicy,
        SetTopicPermissions,
        SetUserLimits,
        SetVhostLimits,
        UnbindExchange,
        UnbindQueue,
    )
}

# Fields that commands got when stores with the others existed already.
_LATER_FIELDS = frozenset(
    {
        ("AddVhost", "default_queue_type"),
        ("AddVhost", "description"),
        ("AddVhost", "tags"),
        ("DeclareExchange", "replicate"),
        ("DeclareQueue", "replicate"),
        ("PutUser", "scram_keys"),
    }
)


class EncodedField:
    """A field of a command as it is written."""

    def __init__(self, name: str, is_later: bool, default: object) -> None:
        self.name: str = name
        self.is_later: bool = is_later
        self.default: object = default


def _fields_of(command: type[VhostCommand | BrokerCommand]) -> list[EncodedField]:
    kind = command.__name__
    return [
        EncodedField(field.name, (kind, field.name) in _LATER_FIELDS, field.default)
        for field in dataclasses.fields(command)
    ]


# By the name of a command. A snapshot may have a command for each of a hundred thousand queues, so these are
# looked up once.
_FIELDS: Final = {name: _fields_of(command) for name, command in _COMMANDS.items()}


class Change:
    """One definition that was made, changed or removed."""

    def __init__(
        self,
        vhost: str | None,
        command: VhostCommand | BrokerCommand,
        queue_number: int,
        gone_numbers: list[int] | None = None,
    ) -> None:
        # None for a command of the broker itself.
        self.vhost: str | None = vhost
        self.command: VhostCommand | BrokerCommand = command
        # Of the queue that is declared; 0 for everything else.
        self.queue_number: int = queue_number
        # Of the queues, and of the delay line, that are deleted.
        self.gone_numbers: list[int] = [] if gone_numbers is None else gone_numbers


def encode_change(change: Change) -> bytes:
    return json.dumps(_plain(change)).encode()


def decode_change(text: bytes) -> Change:
    return _change(json.loads(text))


def encode_snapshot(changes: list[Change], next_queue_number: int) -> bytes:
    rows = [_plain(change) for change in changes]
    return json.dumps({"next_queue_number": next_queue_number, "changes": rows}).encode()


def decode_snapshot(text: bytes) -> tuple[list[Change], int]:
    table = json.loads(text)
    return [_change(row) for row in table["changes"]], table["next_queue_number"]


def _plain(change: Change) -> dict[str, object]:
    command = change.command
    name = type(command).__name__
    fields: dict[str, object] = {}
    for field in _FIELDS[name]:
        value = getattr(command, field.name)
        # An earlier release can read what says nothing that it does not know.
        if not field.is_later or value != field.default:
            fields[field.name] = _encodable(value)
    row: dict[str, object] = {
        "vhost": change.vhost,
        "command": name,
        "fields": fields,
        "queue_number": change.queue_number,
    }
    if change.gone_numbers:
        row["gone_numbers"] = change.gone_numbers
    return row


def _change(row: dict[str, object]) -> Change:
    name = row["command"]
    fields = row["fields"]
    vhost = row["vhost"]
    number = row["queue_number"]
    assert isinstance(name, str)
    assert isinstance(fields, dict)
    assert isinstance(number, int)
    assert vhost is None or isinstance(vhost, str)
    values = {key: _decoded(value) for key, value in fields.items()}
    if "tags" in values:
        tags = values["tags"]
        assert isinstance(tags, list)
        values["tags"] = tuple(tags)
    if "replicate" in values:
        # Raises a `ValueError` for what is not a level.
        ReplicationLevel(values["replicate"])
    for tuple_name in ("stages", "epochs", "epoch_firsts"):
        if tuple_name in values:
            listed = values[tuple_name]
            assert isinstance(listed, list)
            values[tuple_name] = tuple(listed)
    if name == ChangeStream.__name__:
        _check_numbers(values)
    if "returns" in values:
        values["returns"] = _returns(values["returns"])
    make: Callable[..., VhostCommand | BrokerCommand] = _COMMANDS[name]
    gone = row.get("gone_numbers", [])
    assert isinstance(gone, list)
    for gone_number in gone:
        assert isinstance(gone_number, int)
    return Change(vhost, make(**values), number, gone)


def _check_numbers(values: dict[str, object]) -> None:
    """Of a `ChangeStream`: everything in its tables is a number."""
    for table_name in ("cursors", "sequences", "rows"):
        table = values[table_name]
        assert isinstance(table, dict)
        for number in table.values():
            assert isinstance(number, int), f"{number!r} is not a number of a stream"
    for tuple_name in ("epochs", "epoch_firsts"):
        listed = values.get(tuple_name, ())
        assert isinstance(listed, tuple)
        for number in listed:
            assert isinstance(number, int), f"{number!r} is not a number of a stream"


def _returns(rows: object) -> tuple[tuple[int, int, int], ...]:
    assert isinstance(rows, list)
    found: list[tuple[int, int, int]] = []
    for row in rows:
        first, count, deliveries = row
        for number in (first, count, deliveries):
            is_positive = isinstance(number, int) and number > 0
            assert is_positive, f"{row} is not a range of positions with a count"
        found.append((first, count, deliveries))
    return tuple(found)


def _encodable(value: object) -> object:
    """JSON has no octets, decimals and timestamps; each becomes a table with one key that names the
    type.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return {"$octets": bytes(value).hex()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, Long):
        return value.value
    if isinstance(value, Timestamp):
        return {"$timestamp": value.seconds}
    if isinstance(value, dict):
        return {"$table": {str(key): _encodable(item) for key, item in value.items()}}
    if isinstance(value, (list, tuple)):
        return [_encodable(item) for item in value]
    seconds = getattr(value, "seconds", None)
    assert isinstance(seconds, int), f"no form for a {type(value).__name__} in a definition"
    return {"$timestamp": seconds}


def _decoded(value: object) -> object:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$octets" in value:
        return bytes.fromhex(value["$octets"])
    if "$decimal" in value:
        return Decimal(value["$decimal"])
    if "$timestamp" in value:
        return Timestamp(value["$timestamp"])
    return {key: _decoded(item) for key, item in value["$table"].items()}


def snapshot_of(
    state: BrokerState, unsettled: list[tuple[MessageQueue, QueueEntry]]
) -> list[Change]:
    """The changes that create from an empty state what this one's definition log hears of: its
    durable part, and in a cluster the shared transient part and how often messages came back, too.
    `unsettled` is what is out with consumers.
    """
    changes: list[Change] = []
    for name in state.vhosts:
        changes.append(Change(None, AddVhost(name), 0))
    for user in state.users.listed():
        put = PutUser(user.name, user.password_hash, user.tags, user.loopback_only, user.scram_keys)
        changes.append(Change(None, put, 0))
    for limits in state.user_limits.listed():
        changes.append(Change(None, limits, 0))
    for access in state.access.listed():
        granted = SetPermissions(
            access.user, access.vhost, access.configure, access.write, access.read
        )
        changes.append(Change(None, granted, 0))
    for topic in state.topic_access.listed():
        changes.append(Change(None, topic.command(), 0))
    for name, value in state.global_parameters.items():
        changes.append(Change(None, SetGlobalParameter(name, value), 0))
    out = counts_out(unsettled)
    if state.epoch:
        changes.append(Change(None, NumberFrom(state.epoch), 0))
    for vhost in state.vhosts.values():
        _add_vhost(changes, vhost)
        if state.shared.is_replicated:
            for queue in vhost.queues.values():
                for note in notes_of(queue, out):
                    changes.append(Change(vhost.name, note, 0))
    return changes


def policies_of(vhost: VirtualHost) -> list[SetPolicy | SetOperatorPolicy]:
    """The commands that set the policies of a virtual host."""
    found: list[SetPolicy | SetOperatorPolicy] = []
    for policy in vhost.policies.listed():
        found.append(
            SetPolicy(
                policy.name,
                policy.pattern,
                policy.definition,
                policy.apply_to.value,
                policy.priority,
            )
        )
    for policy in vhost.operator_policies.listed():
        found.append(
            SetOperatorPolicy(
                policy.name,
                policy.pattern,
                policy.definition,
                policy.apply_to.value,
                policy.priority,
            )
        )
    return found


def declaration_of(vhost: VirtualHost, queue: MessageQueue) -> DeclareQueue:
    """The command that makes this queue, with its level of replication."""
    command = DeclareQueue(
        queue.name,
        queue.durable,
        False,
        queue.auto_delete,
        False,
        queue.arguments,
        server_named=queue.name.startswith(RESERVED_PREFIX),
    )
    return vhost.maker.recorded_queue(command, queue)


def exchange_declaration_of(vhost: VirtualHost, exchange: Exchange) -> DeclareExchange:
    """The command that makes this exchange, with its level of replication."""
    declared = DeclareExchange(
        exchange.name,
        exchange.kind,
        exchange.durable,
        exchange.auto_delete,
        exchange.internal,
        False,
        exchange.arguments,
    )
    return vhost.maker.recorded_exchange(declared, exchange)


def is_predeclared(exchange: Exchange) -> bool:
    """Whether every virtual host has it from its beginning."""
    return not exchange.name or exchange.name.startswith(RESERVED_PREFIX)


def _add_vhost(changes: list[Change], vhost: VirtualHost) -> None:
    for policy in policies_of(vhost):
        changes.append(Change(vhost.name, policy, 0))
    for (component, name), value in vhost.parameters.items():
        changes.append(Change(vhost.name, SetParameter(component, name, value), 0))
    _add_exchanges(changes, vhost)
    for queue in vhost.queues.values():
        if vhost.definitions.hears(queue.durable, queue.exclusive_owner != NO_CONNECTION):
            changes.append(Change(vhost.name, declaration_of(vhost, queue), queue.number))
            stream = as_stream(queue)
            if stream is not None and stream.values is not None:
                changes.append(Change(vhost.name, stream.values.whole(queue.name), 0))
    if vhost.delay_line.number:
        changes.append(Change(vhost.name, OpenDelayLine(), vhost.delay_line.number))
    for binding in vhost.bindings.listed():
        bound = vhost.bound.recorded_binding(binding)
        if bound is not None:
            changes.append(Change(vhost.name, bound, 0))
    for sink in vhost.sinks.values():
        opened = OpenSink(sink.name, sink.owner, sink.temporary)
        changes.append(Change(vhost.name, opened, 0))
        # A published stage is not recorded as such, so that a backup learns of it by its deletion.
        pending = [name for name in sink.pending if name in vhost.queues]
        if sink.batch >= 0:
            committed = CommitSink(sink.name, sink.batch, tuple(pending))
            changes.append(Change(vhost.name, committed, 0))
        if sink.advanced_stage in pending:
            advanced = AdvanceSink(sink.name, sink.advanced_stage, sink.advanced_rows)
            changes.append(Change(vhost.name, advanced, 0))
    # Last: a limit below what is there already would refuse it.
    limits = SetVhostLimits(vhost.max_queues, vhost.max_connections)
    changes.append(Change(vhost.name, limits, 0))
    # And after the queues: the default type must not become that of one declared before it was set.
    if vhost.description or vhost.tags or vhost.default_queue_type:
        described = AddVhost(vhost.name, vhost.description, vhost.tags, vhost.default_queue_type)
        changes.append(Change(None, described, 0))


def _add_exchanges(changes: list[Change], vhost: VirtualHost) -> None:
    for exchange in vhost.exchanges.values():
        if not is_predeclared(exchange) and vhost.definitions.hears(exchange.durable):
            changes.append(Change(vhost.name, exchange_declaration_of(vhost, exchange), 0))
