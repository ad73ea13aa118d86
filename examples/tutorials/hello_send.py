"""Puts one message into the queue `greetings` and ends."""

import os

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.queue_declare("greetings", durable=True)
    channel.basic_publish(exchange="", routing_key="greetings", body="Good morning!")
    print("sent: Good morning!")
