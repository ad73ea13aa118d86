"""Prints all announcements from now on until Ctrl-C. Start several of them."""

import os

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")


def show(
    channel: BlockingChannel, delivery: Basic.Deliver, properties: BasicProperties, body: bytes
) -> None:
    print(f"heard: {body.decode()}", flush=True)


with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    incoming = connection.channel()
    incoming.exchange_declare("announcements", "fanout", durable=True)
    own = incoming.queue_declare("", exclusive=True).method.queue
    incoming.queue_bind(own, "announcements")
    incoming.basic_consume(own, show, auto_ack=True)
    print("listening; Ctrl-C ends", flush=True)
    try:
        incoming.start_consuming()
    except KeyboardInterrupt:
        incoming.stop_consuming()
