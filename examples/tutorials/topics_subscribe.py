"""Prints the readings whose topic matches a pattern until Ctrl-C:

python topics_subscribe.py "north.#" "*.*.level"
"""

import os
import sys

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")


def show(
    channel: BlockingChannel, delivery: Basic.Deliver, properties: BasicProperties, body: bytes
) -> None:
    print(f"{delivery.routing_key}: {body.decode()}", flush=True)


with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    incoming = connection.channel()
    incoming.exchange_declare("readings", "topic", durable=True)
    own = incoming.queue_declare("", exclusive=True).method.queue
    for pattern in sys.argv[1:]:
        incoming.queue_bind(own, "readings", routing_key=pattern)
    incoming.basic_consume(own, show, auto_ack=True)
    print(f"waiting for {', '.join(sys.argv[1:])}; Ctrl-C ends", flush=True)
    try:
        incoming.start_consuming()
    except KeyboardInterrupt:
        incoming.stop_consuming()
