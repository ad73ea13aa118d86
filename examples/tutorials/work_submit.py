"""Submits one job per argument, each as many tenths of a second long as the argument has letters:

python work_submit.py pump valve reservoir
"""

import os
import sys

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")

with pika.BlockingConnection(pika.URLParameters(URL)) as connection:
    channel = connection.channel()
    channel.queue_declare("inspections", durable=True)
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
    for job in sys.argv[1:]:
        # Returns when the broker has the message on its disk, and raises if it does not take it.
        channel.basic_publish("", "inspections", job, properties=persistent, mandatory=True)
        print(f"submitted: {job}")
