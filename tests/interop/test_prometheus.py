"""A real Prometheus scrapes a real broker, and every expression of a dashboard finds data there."""

import contextlib
import json
import math
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pika
import pika.exceptions
import pytest

from penstock import Broker
from tests.interop.foreign_clients import prometheus

DASHBOARD = Path(__file__).parents[2] / "examples" / "grafana" / "penstock.json"
# A loaded machine scrapes late; a rate needs two scrapes.
SECONDS = 120.0
# What Grafana puts in for its variables.
VARIABLES = {"$__rate_interval": "1m", "$node": ".*"}

# The names that the dashboard RabbitMQ-Overview of RabbitMQ 3.8 to 3.13 asks for. Each of its
# expressions joins them with the identity of a node, so that these labels are needed as well.
OVERVIEW_LEVELS = (
    "rabbitmq_build_info",
    "rabbitmq_channel_consumers",
    "rabbitmq_channels",
    "rabbitmq_connections",
    "rabbitmq_consumers",
    "rabbitmq_disk_space_available_bytes",
    "rabbitmq_global_consumers",
    "rabbitmq_global_publishers",
    "rabbitmq_process_max_fds",
    "rabbitmq_process_max_tcp_sockets",
    "rabbitmq_process_open_fds",
    "rabbitmq_process_open_tcp_sockets",
    "rabbitmq_process_resident_memory_bytes",
    "rabbitmq_queue_messages_ready",
    "rabbitmq_queue_messages_unacked",
    "rabbitmq_queues",
    "rabbitmq_resident_memory_limit_bytes",
)
OVERVIEW_COUNTERS = (
    "rabbitmq_channels_closed_total",
    "rabbitmq_channels_opened_total",
    "rabbitmq_connections_closed_total",
    "rabbitmq_connections_opened_total",
    "rabbitmq_global_messages_acknowledged_total",
    "rabbitmq_global_messages_confirmed_total",
    "rabbitmq_global_messages_delivered_consume_auto_ack_total",
    "rabbitmq_global_messages_delivered_consume_manual_ack_total",
    "rabbitmq_global_messages_delivered_get_auto_ack_total",
    "rabbitmq_global_messages_delivered_get_manual_ack_total",
    "rabbitmq_global_messages_get_empty_total",
    "rabbitmq_global_messages_received_confirm_total",
    "rabbitmq_global_messages_received_total",
    "rabbitmq_global_messages_redelivered_total",
    "rabbitmq_global_messages_routed_total",
    "rabbitmq_global_messages_unroutable_dropped_total",
    "rabbitmq_global_messages_unroutable_returned_total",
    "rabbitmq_queues_created_total",
    "rabbitmq_queues_declared_total",
    "rabbitmq_queues_deleted_total",
)


def joined(expression: str, cluster: str) -> str:
    identity = f'rabbitmq_identity_info{{rabbitmq_cluster="{cluster}", namespace=""}}'
    return (
        f"sum({expression} * on (instance) group_left (rabbitmq_cluster, rabbitmq_node) {identity})"
        " by (rabbitmq_node)"
    )


def expressions() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = []
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            assert "$" not in expression, f"a variable that the test does not know: {expression}"
            found.append(expression)
    return found


class Scraper:
    """A Prometheus that scrapes one broker. Held by the tests of this file."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def ask(self, expression: str) -> list[float]:
        """Asked again until there is data."""
        deadline = time.monotonic() + SECONDS
        while True:
            values = self._ask_once(expression)
            if values or time.monotonic() > deadline:
                return values
            time.sleep(0.2)

    def _ask_once(self, expression: str) -> list[float]:
        try:
            response = httpx.get(
                f"{self._address}/api/v1/query", params={"query": expression}, timeout=20
            )
        except httpx.TransportError:
            # It has not started yet.
            return []
        if response.status_code == 503:
            return []
        answer = response.json()
        assert answer["status"] == "success", f"{expression}: {answer}"
        values = [float(sample["value"][1]) for sample in answer["data"]["result"]]
        return [value for value in values if not math.isnan(value)]


class Clients(threading.Thread):
    """Publishes, consumes and comes and goes until it is told to stop. Held by a fixture."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(name="clients", daemon=True)
        self._url = broker.url
        self.is_over = threading.Event()

    def run(self) -> None:
        with contextlib.closing(pika.BlockingConnection(pika.URLParameters(self._url))) as steady:
            channel = steady.channel()
            channel.confirm_delivery()
            channel.queue_declare("work", durable=True)
            channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
            while not self.is_over.wait(0.05):
                for queue in ("work", "stream"):
                    properties = pika.BasicProperties(delivery_mode=2)
                    channel.basic_publish("", queue, b"x" * 100, properties)
                channel.basic_publish("", "nowhere", b"dropped")
                method, _, _ = channel.basic_get("work")
                channel.basic_ack(method.delivery_tag)
                with contextlib.closing(pika.BlockingConnection(pika.URLParameters(self._url))):
                    pass


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def settings(folder: Path, broker: Broker) -> Path:
    path = folder / "prometheus.yml"
    path.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        "scrape_configs:\n"
        "  - job_name: penstock\n"
        "    basic_auth: {username: guest, password: guest}\n"
        f"    static_configs: [{{targets: ['{broker.host}:{broker.http_port}']}}]\n",
        encoding="utf-8",
    )
    return path


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Scraper]]:
    program = prometheus()
    folder = tmp_path_factory.mktemp("prometheus")
    port = free_port()
    with Broker(http=True, data=folder / "data") as broker:
        clients = Clients(broker)
        clients.start()
        command = [
            str(program),
            f"--config.file={settings(folder, broker)}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]
        with (folder / "log").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            cursor = f"{broker.http_url}/api/streams/%2F/stream/cursors/job"
            scraper = Scraper(port)
            assert scraper.ask("penstock_stream_bytes"), (folder / "log").read_text()
            answer = httpx.put(
                cursor, auth=("guest", "guest"), content=b'{"offset": 0}', timeout=20
            )
            assert answer.is_success, answer.text
            yield broker, scraper
            assert clients.is_alive(), "the traffic ended early"
        finally:
            process.terminate()
            process.wait(60)
            clients.is_over.set()
            clients.join(60)


@pytest.mark.parametrize("expression", expressions())
def test_every_expression_of_the_dashboard_finds_data(
    scraped: tuple[Broker, Scraper], expression: str
) -> None:
    assert scraped[1].ask(expression)


def test_rabbitmqs_overview_dashboard_finds_data(scraped: tuple[Broker, Scraper]) -> None:
    broker, scraper = scraped
    node = httpx.get(f"{broker.http_url}/api/overview", auth=("guest", "guest"), timeout=20).json()
    cluster = node["cluster_name"]
    asked = [joined(name, cluster) for name in OVERVIEW_LEVELS]
    asked += [joined(f"rate({name}[60s])", cluster) for name in OVERVIEW_COUNTERS]
    assert [expression for expression in asked if not scraper.ask(expression)] == []


def test_the_figures_are_those_of_the_traffic(scraped: tuple[Broker, Scraper]) -> None:
    scraper = scraped[1]
    [received] = scraper.ask("rate(rabbitmq_global_messages_received_total[1m]) > 0")
    [dropped] = scraper.ask("rate(rabbitmq_global_messages_unroutable_dropped_total[1m]) > 0")
    # Two of three messages reach a queue.
    assert dropped < received
    assert scraper.ask("rabbitmq_queues == 2")
    assert scraper.ask("penstock_stream_cursor_lag > 0")


def test_prometheus_has_nothing_to_say_against_the_page(scraped: tuple[Broker, Scraper]) -> None:
    assert scraped[1].ask('up{job="penstock"} == 1')
