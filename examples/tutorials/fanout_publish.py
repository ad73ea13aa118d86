"""Announces its argument to everybody who listens now:

python fanout_publish.py "pressure is low"
"""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare("announcements", "fanout", durable=True)
    channel.basic_publish("announcements", routing_key="", body=sys.argv[1])
    print(f"announced: {sys.argv[1]}")
