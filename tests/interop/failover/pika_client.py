"""pika: its `BlockingConnection` takes a list of parameters, and tries one after the other."""

from __future__ import annotations

import time

import pika
import pika.exceptions

from tests.interop.failover.errand import (
    PAUSE_SECONDS,
    REST_SECONDS,
    WINDOW,
    Errand,
    body_of,
    errand,
    report_confirmed,
    report_received,
    until_told,
)


def connected(work: Errand) -> pika.BlockingConnection:
    servers = [pika.ConnectionParameters(host, port) for host, port in work.addresses]
    while True:
        try:
            return pika.BlockingConnection(servers)
        except pika.exceptions.AMQPError:
            time.sleep(PAUSE_SECONDS)


def send(work: Errand) -> None:
    told = until_told()
    number, is_again = 0, False
    while not told.is_set():
        connection = connected(work)
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            while not told.is_set():
                channel.basic_publish(
                    "",
                    work.queue,
                    body_of(number, is_again),
                    pika.BasicProperties(delivery_mode=2),
                    mandatory=True,
                )
                report_confirmed(number)
                number, is_again = number + 1, False
                connection.sleep(REST_SECONDS)
            connection.close()
        except pika.exceptions.AMQPError:
            is_again = True


def receive(work: Errand) -> None:
    while True:
        try:
            channel = connected(work).channel()
            channel.basic_qos(prefetch_count=WINDOW)
            for method, _, body in channel.consume(work.queue):
                report_received(body.decode(), method.redelivered)
                channel.basic_ack(method.delivery_tag)
        except pika.exceptions.AMQPError:
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    mine = errand()
    if mine.is_sender:
        send(mine)
    else:
        receive(mine)
