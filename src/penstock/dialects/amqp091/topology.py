"""Declaring, binding, deleting and purging: methods become commands, results become replies."""

from penstock.broker.names import server_named, without_line_breaks
from penstock.broker.topology import (
    BindExchange,
    BindQueue,
    DeclareExchange,
    DeclareQueue,
    Deleted,
    DeleteExchange,
    DeleteQueue,
    Purged,
    PurgeQueue,
    QueueDeclared,
    Result,
    UnbindExchange,
    UnbindQueue,
    VhostCommand,
)
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.reply_to import PSEUDO_QUEUE
from penstock.dialects.amqp091.subscribe import named_queue
from penstock.dialects.turn import PURGED_PER_UNIT
from penstock.wire.amqp091 import methods_generated as wire


def declare_exchange(channel: Channel, method: wire.ExchangeDeclare, now: int) -> None:
    _apply(
        channel,
        DeclareExchange(
            without_line_breaks(method.exchange),
            method.type_,
            method.durable,
            method.auto_delete,
            method.internal,
            method.passive,
            method.arguments,
        ),
        now,
    )
    _reply(channel, method.no_wait, wire.ExchangeDeclareOk())


def delete_exchange(channel: Channel, method: wire.ExchangeDelete, now: int) -> None:
    _apply(channel, DeleteExchange(method.exchange, method.if_unused), now)
    _reply(channel, method.no_wait, wire.ExchangeDeleteOk())


def bind_exchange(channel: Channel, method: wire.ExchangeBind, now: int) -> None:
    command = BindExchange(method.destination, method.source, method.routing_key, method.arguments)
    _apply(channel, command, now)
    _reply(channel, method.no_wait, wire.ExchangeBindOk())


def unbind_exchange(channel: Channel, method: wire.ExchangeUnbind, now: int) -> None:
    command = UnbindExchange(
        method.destination, method.source, method.routing_key, method.arguments
    )
    _apply(channel, command, now)
    _reply(channel, method.no_wait, wire.ExchangeUnbindOk())


def declare_queue(channel: Channel, method: wire.QueueDeclare, now: int) -> None:
    name = without_line_breaks(method.queue)
    if name == PSEUDO_QUEUE:
        # It exists for every client; there is nothing to declare.
        _reply(channel, method.no_wait, wire.QueueDeclareOk(name, 0, 1))
        return
    if channel.dialect.reply_consumers.find(name) is not None:
        # A replier asks whether the asker is still there.
        _reply(channel, method.no_wait, wire.QueueDeclareOk(name, 0, 1))
        return
    drawn = not name and not method.passive
    if drawn:
        name = server_named(channel.container.entropy)
    command = DeclareQueue(
        name,
        method.durable,
        method.exclusive,
        method.auto_delete,
        method.passive,
        method.arguments,
        channel.connection_number,
        drawn,
    )
    result = _apply(channel, command, now)
    assert isinstance(result, QueueDeclared)
    channel.last_queue = name
    reply = wire.QueueDeclareOk(name, result.message_count, result.consumer_count)
    _reply(channel, method.no_wait, reply)


def bind_queue(channel: Channel, method: wire.QueueBind, now: int) -> None:
    name = named_queue(channel, method.queue)
    # With neither name given, the routing key is the queue's name too (specification 1.7.2.3).
    key = name if not method.queue and not method.routing_key else method.routing_key
    command = BindQueue(name, method.exchange, key, method.arguments, channel.connection_number)
    _apply(channel, command, now)
    _reply(channel, method.no_wait, wire.QueueBindOk())


def unbind_queue(channel: Channel, method: wire.QueueUnbind, now: int) -> None:
    name = named_queue(channel, method.queue)
    key = name if not method.queue and not method.routing_key else method.routing_key
    command = UnbindQueue(name, method.exchange, key, method.arguments, channel.connection_number)
    _apply(channel, command, now)
    _reply(channel, False, wire.QueueUnbindOk())


def purge_queue(channel: Channel, method: wire.QueuePurge, now: int) -> None:
    name = named_queue(channel, method.queue)
    result = _apply(channel, PurgeQueue(name, channel.connection_number), now)
    assert isinstance(result, Purged)
    channel.turn.charge(result.message_count // PURGED_PER_UNIT)
    if result.message_count:
        # What is said to be gone does not come back after a crash.
        channel.container.hold_until_durable(channel.wire.outgoing)
    _reply(channel, method.no_wait, wire.QueuePurgeOk(result.message_count))


def delete_queue(channel: Channel, method: wire.QueueDelete, now: int) -> None:
    name = named_queue(channel, method.queue)
    command = DeleteQueue(name, method.if_unused, method.if_empty, channel.connection_number)
    result = _apply(channel, command, now)
    assert isinstance(result, Deleted)
    channel.turn.charge(result.message_count // PURGED_PER_UNIT)
    _reply(channel, method.no_wait, wire.QueueDeleteOk(result.message_count))


def _apply(channel: Channel, command: VhostCommand, now: int) -> Result:
    channel.principal.check(command)
    result = channel.vhost.apply(command, now)
    durability = channel.container.durability
    count = channel.vhost.definitions.change_count
    if count != durability.definition_count or durability.definitions > durability.durable:
        # It is confirmed only when the definition is durable, whoever declared it first.
        channel.container.hold_until_durable(channel.wire.outgoing)
    return result


def _reply(channel: Channel, no_wait: bool, method: wire.Method) -> None:
    if not no_wait:
        channel.wire.send_method(channel.number, method)
