"""Prints every message of the queue `greetings` until Ctrl-C."""

import os

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")


def show(
    channel: BlockingChannel, delivery: Basic.Deliver, properties: BasicProperties, body: bytes
) -> None:
    print(f"received: {body.decode()}", flush=True)


with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    incoming = connection.channel()
    incoming.queue_declare("greetings", durable=True)
    incoming.basic_consume("greetings", show, auto_ack=True)
    print("waiting for messages; Ctrl-C ends", flush=True)
    try:
        incoming.start_consuming()
    except KeyboardInterrupt:
        incoming.stop_consuming()
