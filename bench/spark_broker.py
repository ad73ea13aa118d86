"""Penstock as used by Spark: with a data directory and its HTTP port."""

import os
import re

from bench.brokers import PenstockWithData
from bench.cpu import tree_cpu_seconds
from bench.running import HOST, BrokerUnavailableError

HTTP_ADDRESS = re.compile(r"penstock ready .*?\bhttp=[^: ]+:(?P<port>\d+)")


class PenstockWithHttp(PenstockWithData):
    """Held by the Spark case from its start to its end."""

    name = "penstock-http"
    http_port = 0

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "--http-port", "0"]

    def _launch(self, started: float) -> None:
        super()._launch(started)
        found = HTTP_ADDRESS.search(self._output())
        if found is None:
            raise BrokerUnavailableError(
                "penstock was started with --http-port, but its ready line has no HTTP port"
            )
        self.http_port = int(found["port"])

    @property
    def uri(self) -> str:
        return f"http://{HOST}:{self.http_port}/"

    @property
    def amqp_uri(self) -> str:
        return f"amqp://{HOST}:{self.port}"


class CpuTimes:
    """CPU seconds since it was made: of everything this process started, and of the broker in it."""

    def __init__(self, broker: PenstockWithHttp) -> None:
        self._broker = broker
        self._all = tree_cpu_seconds(os.getpid())
        self._of_broker = tree_cpu_seconds(broker.pid)

    def passed(self) -> tuple[float, float]:
        return (
            tree_cpu_seconds(os.getpid()) - self._all,
            tree_cpu_seconds(self._broker.pid) - self._of_broker,
        )
