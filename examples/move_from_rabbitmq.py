"""Moves messages of queues from one AMQP 0-9-1 broker to another, for example from RabbitMQ to Penstock:

    python examples/move_from_rabbitmq.py --from amqp://USER:PASSWORD@OLD/VHOST \
        --to amqp://USER:PASSWORD@NEW/VHOST orders invoices

The queues must exist on both sides. A message is acknowledged at the old broker after the new one has
confirmed it. If this is interrupted, run it again: nothing is lost, and at most the last few messages are
there twice. It ends when the queues are empty. Streams cannot be moved in this way.
"""

import argparse
import sys
import uuid

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties

# Messages on their way, and thus those that can be there twice after an interruption.
PREFETCH_COUNT = 100
# A queue without a message for this long is looked at: it is empty, or somebody else holds messages.
QUIET_SECONDS = 1.0
# Only the user who is logged in may be named in a message, so another one goes into a header.
USER_HEADER = "x-moved-user-id"


def move(source: BlockingChannel, target: BlockingChannel, queue: str) -> int:
    """All messages of one queue; how many they were."""
    # Bound to this queue alone: routing keys stay as they are, and a CC header makes no copies.
    # Of one name for each queue, so that a second run clears up after one that was interrupted.
    exchange = f"move-{uuid.uuid5(uuid.NAMESPACE_OID, queue)}"
    target.exchange_declare(exchange, "fanout", auto_delete=True)
    target.queue_bind(queue, exchange)
    count = 0
    source.basic_qos(prefetch_count=PREFETCH_COUNT)
    for delivery, properties, body in source.consume(queue, inactivity_timeout=QUIET_SECONDS):
        if delivery is None:
            if source.queue_declare(queue, passive=True).method.message_count == 0:
                break
            continue
        # Returns with the confirm, and raises if the message was refused or has reached no queue.
        target.basic_publish(
            exchange, delivery.routing_key, body, properties=allowed(properties), mandatory=True
        )
        source.basic_ack(delivery.delivery_tag)
        count += 1
    source.cancel()
    target.exchange_delete(exchange)
    return count


def allowed(properties: BasicProperties) -> BasicProperties:
    """The same properties, without the name of a user that the new broker would refuse."""
    if properties.user_id is not None:
        properties.headers = {**(properties.headers or {}), USER_HEADER: properties.user_id}
        properties.user_id = None
    return properties


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--from", dest="source", required=True, help="URL of the old broker")
    parser.add_argument("--to", dest="target", required=True, help="URL of the new broker")
    parser.add_argument("queues", nargs="+", metavar="QUEUE")
    chosen = parser.parse_args()
    with (
        pika.BlockingConnection(pika.URLParameters(chosen.source)) as old,
        pika.BlockingConnection(pika.URLParameters(chosen.target)) as new,
    ):
        target = new.channel()
        target.confirm_delivery()
        for queue in chosen.queues:
            try:
                count = move(old.channel(), target, queue)
            except pika.exceptions.AMQPError as error:
                sys.exit(f"{queue}: {error!r}. Messages that were not moved are in the old queue.")
            print(f"{queue}: moved {count} messages", flush=True)


if __name__ == "__main__":
    main()
