"""Celery Flower's page about the broker, served by a real Flower."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pika
import pytest

from penstock import Broker

pytest.importorskip("flower")

# Flower imports much, and the machine may be loaded.
STARTING_SECONDS = 120


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert isinstance(port, int)
        return port


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(http=True) as running:
        yield running


@pytest.fixture
def flower(broker: Broker) -> Iterator[str]:
    """The address of its pages."""
    port = free_port()
    api = f"http://guest:guest@127.0.0.1:{broker.http_port}/api/"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "celery",
            f"--broker=amqp://guest:guest@127.0.0.1:{broker.port}//",
            "flower",
            "--address=127.0.0.1",
            f"--port={port}",
            f"--broker_api={api}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def page(address: str) -> str:
    deadline = time.monotonic() + STARTING_SECONDS
    while True:
        try:
            response = httpx.get(f"{address}/broker", timeout=STARTING_SECONDS)
            response.raise_for_status()
        except httpx.HTTPError:
            assert time.monotonic() < deadline, "Flower does not answer"
            time.sleep(0.1)
        else:
            return response.text


@pytest.mark.timeout(2 * STARTING_SECONDS)
def test_the_page_about_the_broker_shows_celerys_queue(broker: Broker, flower: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        channel = connection.channel()
        channel.queue_declare("celery", durable=True)
        channel.confirm_delivery()
        for _ in range(4711):
            channel.basic_publish("", "celery", b"")
        html = page(flower)
    finally:
        connection.close()
    assert "celery" in html
    assert "4711" in html
