"""Reports an event of some severity:

python routing_publish.py alarm "the dam leaks"
"""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")

severity, text = sys.argv[1:3]
with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.exchange_declare("events", "direct", durable=True)
    channel.basic_publish("events", routing_key=severity, body=text)
    print(f"reported as {severity}: {text}")
