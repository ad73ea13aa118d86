"""Publishes a reading under its topic: python topics_publish.py north.reservoir.level 4.2"""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")

topic, value = sys.argv[1:3]
with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare("readings", "topic", durable=True)
    channel.basic_publish("readings", routing_key=topic, body=value)
    print(f"published {topic}: {value}")
