"""Asks for each argument and prints the answers: python rpc_client.py 250 1500"""

import os
import sys
import uuid

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")
# After this long without an answer nobody is there who could give one.
PATIENCE_SECONDS = 10
# A name that the broker knows: what is sent to it comes to this channel without a queue.
REPLIES = "amq.rabbitmq.reply-to"

answers: dict[str | None, str] = {}


def keep(
    channel: BlockingChannel, delivery: Basic.Deliver, properties: BasicProperties, body: bytes
) -> None:
    answers[properties.correlation_id] = body.decode()


with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    asking = connection.channel()
    asking.basic_consume(REPLIES, keep, auto_ack=True)
    for litres in sys.argv[1:]:
        number = str(uuid.uuid4())
        question = pika.BasicProperties(reply_to=REPLIES, correlation_id=number)
        asking.basic_publish("", "conversions", litres, properties=question)
        limit = connection.call_later(PATIENCE_SECONDS, lambda: sys.exit("nobody answers"))
        while number not in answers:
            connection.process_data_events(time_limit=None)
        connection.remove_timeout(limit)
        print(f"{litres} litres: {answers[number]}", flush=True)
