"""The verbs that a broker answers, as values: the same for every skin.

A call pairs a method with the answer it gets, so `channel.call(declare_queue("orders"))` is typed
by its verb, and a list of calls can be kept and repeated after a reconnect.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.wire.amqp091 import methods_generated as m

Answer = TypeVar("Answer", bound=m.Method)
Arguments = dict[str, object]


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """Held by the caller until the answer has arrived."""

    method: m.Method
    answer: type[Answer]


def declare_exchange(
    exchange: str,
    kind: str = "direct",
    *,
    passive: bool = False,
    durable: bool = False,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Arguments | None = None,
) -> Call[m.ExchangeDeclareOk]:
    method = m.ExchangeDeclare(
        exchange, kind, passive, durable, auto_delete, internal, False, arguments
    )
    return Call(method, m.ExchangeDeclareOk)


def delete_exchange(exchange: str, *, if_unused: bool = False) -> Call[m.ExchangeDeleteOk]:
    return Call(m.ExchangeDelete(exchange, if_unused), m.ExchangeDeleteOk)


def bind_exchange(
    destination: str, source: str, routing_key: str = "", arguments: Arguments | None = None
) -> Call[m.ExchangeBindOk]:
    method = m.ExchangeBind(destination, source, routing_key, False, arguments)
    return Call(method, m.ExchangeBindOk)


def unbind_exchange(
    destination: str, source: str, routing_key: str = "", arguments: Arguments | None = None
) -> Call[m.ExchangeUnbindOk]:
    method = m.ExchangeUnbind(destination, source, routing_key, False, arguments)
    return Call(method, m.ExchangeUnbindOk)


def declare_queue(
    queue: str = "",
    *,
    passive: bool = False,
    durable: bool = False,
    exclusive: bool = False,
    auto_delete: bool = False,
    arguments: Arguments | None = None,
) -> Call[m.QueueDeclareOk]:
    """Without a name the broker generates one, which is in the answer."""
    method = m.QueueDeclare(queue, passive, durable, exclusive, auto_delete, False, arguments)
    return Call(method, m.QueueDeclareOk)


def delete_queue(
    queue: str, *, if_unused: bool = False, if_empty: bool = False
) -> Call[m.QueueDeleteOk]:
    return Call(m.QueueDelete(queue, if_unused, if_empty), m.QueueDeleteOk)


def bind_queue(
    queue: str, exchange: str, routing_key: str = "", arguments: Arguments | None = None
) -> Call[m.QueueBindOk]:
    return Call(m.QueueBind(queue, exchange, routing_key, False, arguments), m.QueueBindOk)


def unbind_queue(
    queue: str, exchange: str, routing_key: str = "", arguments: Arguments | None = None
) -> Call[m.QueueUnbindOk]:
    return Call(m.QueueUnbind(queue, exchange, routing_key, arguments), m.QueueUnbindOk)


def purge_queue(queue: str) -> Call[m.QueuePurgeOk]:
    return Call(m.QueuePurge(queue), m.QueuePurgeOk)


def limit_prefetch(count: int, *, whole_channel: bool = False) -> Call[m.BasicQosOk]:
    """At most `count` unacknowledged deliveries, for each later consumer or for the channel."""
    return Call(m.BasicQos(0, count, whole_channel), m.BasicQosOk)


def consume(
    queue: str,
    *,
    consumer_tag: str = "",
    no_local: bool = False,
    no_ack: bool = False,
    exclusive: bool = False,
    arguments: Arguments | None = None,
) -> Call[m.BasicConsumeOk]:
    method = m.BasicConsume(queue, consumer_tag, no_local, no_ack, exclusive, False, arguments)
    return Call(method, m.BasicConsumeOk)


def cancel(consumer_tag: str) -> Call[m.BasicCancelOk]:
    return Call(m.BasicCancel(consumer_tag), m.BasicCancelOk)


def recover(*, requeue: bool = True) -> Call[m.BasicRecoverOk]:
    return Call(m.BasicRecover(requeue), m.BasicRecoverOk)


def select_confirms() -> Call[m.ConfirmSelectOk]:
    return Call(m.ConfirmSelect(), m.ConfirmSelectOk)


def select_transactions() -> Call[m.TxSelectOk]:
    return Call(m.TxSelect(), m.TxSelectOk)


def commit() -> Call[m.TxCommitOk]:
    return Call(m.TxCommit(), m.TxCommitOk)


def rollback() -> Call[m.TxRollbackOk]:
    return Call(m.TxRollback(), m.TxRollbackOk)
