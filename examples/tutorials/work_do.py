"""Does the jobs of the queue `inspections`, one at a time, until Ctrl-C. Start several of them."""

import os

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")


def inspect(
    channel: BlockingChannel, delivery: Basic.Deliver, properties: BasicProperties, body: bytes
) -> None:
    job = body.decode()
    print(f"begun: {job}", flush=True)
    # In place of work. Unlike time.sleep, it answers the broker's heartbeats.
    channel.connection.sleep(len(job) / 10)
    channel.basic_ack(delivery.delivery_tag)
    print(f"done: {job}", flush=True)


with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    incoming = connection.channel()
    incoming.queue_declare("inspections", durable=True)
    incoming.basic_qos(prefetch_count=1)
    incoming.basic_consume("inspections", inspect)
    print("waiting for jobs; Ctrl-C ends", flush=True)
    try:
        incoming.start_consuming()
    except KeyboardInterrupt:
        incoming.stop_consuming()
