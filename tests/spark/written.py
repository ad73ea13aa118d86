"""What tests of writers share: queues to write to, and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from penstock.client.calls import declare_queue
from tests.spark.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.client.events import Delivered


def declare_target(
    broker: BrokerProcess, name: str, arguments: dict[str, Any] | None = None
) -> None:
    with broker.connection() as connection, connection.channel() as channel:
        channel.call(declare_queue(name, durable=True, arguments=arguments))


def drained(broker: BrokerProcess, name: str) -> list[Delivered]:
    found = []
    with broker.connection() as connection, connection.channel() as channel:
        while (message := channel.get(name, no_ack=True)) is not None:
            found.append(message)
    return found


def numbers_in(broker: BrokerProcess, name: str) -> list[int]:
    return sorted(int(message.body) for message in drained(broker, name))


def sinks_of(broker: BrokerProcess) -> list[dict[str, Any]]:
    response = httpx.get(f"{broker.uri}api/sinks/%2F", auth=("guest", "guest"), timeout=20)
    found = response.json()["sinks"]
    assert isinstance(found, list)
    return found


def write(frame: DataFrame, broker: BrokerProcess, **options: Any) -> None:
    chosen = {"uri": broker.uri, "exchange": "", **options}
    frame.write.format("penstock").options(**chosen).mode("append").save()
