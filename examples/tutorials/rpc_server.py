"""Converts litres to cubic metres for whoever asks, until Ctrl-C."""

import os

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")


def answer(
    channel: BlockingChannel, delivery: Basic.Deliver, properties: BasicProperties, body: bytes
) -> None:
    try:
        result = f"{float(body) / 1000:g} m3"
    except ValueError:
        result = "error: this is not a number"
    if properties.reply_to:
        same = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, result, properties=same)
    channel.basic_ack(delivery.delivery_tag)


with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    incoming = connection.channel()
    incoming.queue_declare("conversions")
    incoming.basic_qos(prefetch_count=1)
    incoming.basic_consume("conversions", answer)
    print("waiting for questions; Ctrl-C ends", flush=True)
    try:
        incoming.start_consuming()
    except KeyboardInterrupt:
        incoming.stop_consuming()
