"""The queues and the exchange of a run: declared before it, and deleted after it unless the user
named them.
"""

from penstock.cli.loading.plan import UNCONSUMED_SINK_LENGTH_MAX, Plan
from penstock.client.blocking import BlockingConnection
from penstock.client.calls import (
    Answer,
    Call,
    bind_queue,
    declare_exchange,
    declare_queue,
    delete_exchange,
    delete_queue,
)
from penstock.client.errors import ChannelClosedError
from penstock.wire.amqp091.reply_codes_generated import NOT_FOUND


def set_up(connection: BlockingConnection, plan: Plan) -> None:
    """Existing objects that the user named are used as they are."""
    channel = connection.channel()
    if plan.exchange and _missing(connection, declare_exchange(plan.exchange, passive=True)):
        channel.call(declare_exchange(plan.exchange, "fanout", durable=plan.persistent))
    arguments: dict[str, object] = {}
    if not plan.consumers:
        arguments["x-max-length"] = UNCONSUMED_SINK_LENGTH_MAX
    for queue in plan.queues:
        if plan.owns_queues or _missing(connection, declare_queue(queue, passive=True)):
            channel.call(declare_queue(queue, durable=plan.persistent, arguments=arguments))
        if plan.exchange:
            channel.call(bind_queue(queue, plan.exchange, plan.routing_key))
    channel.close()


def tear_down(connection: BlockingConnection, plan: Plan) -> None:
    with connection.channel() as channel:
        if plan.owns_queues:
            for queue in plan.queues:
                channel.call(delete_queue(queue))
        if plan.owns_exchange:
            channel.call(delete_exchange(plan.exchange))


def _missing(connection: BlockingConnection, passive: Call[Answer]) -> bool:
    """On a separate channel: the broker closes it when the object does not exist."""
    try:
        with connection.channel() as channel:
            channel.call(passive)
    except ChannelClosedError as error:
        if error.code != NOT_FOUND:
            raise
        return True
    return False
