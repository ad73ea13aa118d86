"""Real clients over TLS, with a certificate of their own and without: messages both ways, and what a
client hears whose certificate is not good.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aio_pika
import pika
import pika.exceptions
import pytest
from celery import Celery
from kombu import pools
from kombu.connection import Connection as KombuConnection

from penstock import Broker
from tests.support.certificates import Certificate
from tests.support.identities import Identities

proton = pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import SSLDomain  # noqa: E402 - when it is there
from proton.utils import BlockingConnection  # noqa: E402

HERE = Path(__file__).parent
HOST = "localhost"
PATIENCE_SECONDS = 60.0
START_SECONDS_MAX = 60.0
BODY = bytes(range(256)) * 1000
COUNT = 20
TLS_HEADER = b"AMQP\x02\x01\x00\x00"

pytestmark = [
    pytest.mark.timeout(180, func_only=True),
    # Proton's Python binding leaves its own sockets to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Served:
    """A broker, and what a client needs in order to be let in. Held by the tests of this module."""

    def __init__(self, broker: Broker, identities: Identities, shown: Certificate | None) -> None:
        self.broker = broker
        self.identities = identities
        self.shown = shown

    @property
    def url(self) -> str:
        return f"amqps://guest:guest@{HOST}:{self.broker.tls_port}"

    def context(self) -> ssl.SSLContext:
        return self.identities.context(self.shown)

    def files(self) -> list[str]:
        """The authority, then the client's certificate and key, if it shows one."""
        shown = [] if self.shown is None else [str(self.shown.file), str(self.shown.key)]
        return [str(self.identities.ours.file), *shown]

    def options(self) -> dict[str, object]:
        """As py-amqp has them."""
        names = ("ca_certs", "certfile", "keyfile")
        found: dict[str, object] = dict(zip(names, self.files(), strict=False))
        return {**found, "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": HOST}


@pytest.fixture(scope="module", params=["one way", "mutual"])
def served(request: pytest.FixtureRequest, identities: Identities) -> Iterator[Served]:
    is_mutual = request.param == "mutual"
    tls = identities.mutual() if is_mutual else identities.one_way()
    with Broker(tls=tls) as broker:
        yield Served(broker, identities, identities.client if is_mutual else None)


@pytest.fixture(scope="module")
def strict(identities: Identities) -> Iterator[Broker]:
    with Broker(tls=identities.mutual()) as broker:
        yield broker


def pika_connection(port: int, context: ssl.SSLContext) -> pika.BlockingConnection:
    options = pika.SSLOptions(context, HOST)
    return pika.BlockingConnection(pika.ConnectionParameters(HOST, port, ssl_options=options))


def test_pika(served: Served) -> None:
    with pika_connection(served.broker.tls_port, served.context()) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.confirm_delivery()
        for _ in range(COUNT):
            channel.basic_publish("", queue, BODY)
        taken = channel.consume(queue, auto_ack=True, inactivity_timeout=PATIENCE_SECONDS)
        for _, (_, _, body) in zip(range(COUNT), taken, strict=False):
            assert body == BODY
        channel.cancel()


@pytest.mark.parametrize("who", ["expired", "revoked", "foreign"])
def test_pika_with_a_certificate_that_is_not_good(
    strict: Broker, identities: Identities, who: str
) -> None:
    context = identities.context(getattr(identities, who))
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika_connection(strict.tls_port, context)


def test_aio_pika(served: Served) -> None:
    async def story() -> None:
        connection = await aio_pika.connect_robust(served.url, ssl_context=served.context())
        async with asyncio.timeout(PATIENCE_SECONDS), connection:
            channel = await connection.channel(publisher_confirms=True)
            queue = await channel.declare_queue(exclusive=True)
            for _ in range(COUNT):
                message = aio_pika.Message(BODY)
                await channel.default_exchange.publish(message, routing_key=queue.name)
            for _ in range(COUNT):
                got = await queue.get(timeout=PATIENCE_SECONDS)
                assert got.body == BODY
                await got.ack()

    asyncio.run(story())


def test_kombu(served: Served, unique: Callable[[str], str]) -> None:
    with KombuConnection(f"{served.url}//", ssl=served.options()) as connection:  # type: ignore[no-untyped-call]
        queue = connection.SimpleQueue(unique("kombu"))
        queue.put({"n": 1})
        message = queue.get(timeout=PATIENCE_SECONDS)
        assert message.payload == {"n": 1}
        message.ack()
        queue.close()


@contextmanager
def celery_worker(served: Served, queue: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "celery", "-A", "tests.interop.celery_application"]
    command += ["worker", "--pool", "threads", "--concurrency", "1", "--hostname", f"{queue}@tls"]
    surroundings = {
        "INTEROP_BROKER_URL": f"{served.url}//",
        "INTEROP_QUEUE": queue,
        "INTEROP_TLS": json.dumps(served.options()),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=HERE.parents[1],
            env=os.environ | surroundings,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_celery(served: Served, unique: Callable[[str], str], tmp_path: Path) -> None:
    queue, log = unique("celery"), tmp_path / "worker.log"
    caller = Celery(
        "caller",
        broker=f"{served.url}//",
        backend="rpc://",
        set_as_current=False,
        broker_use_ssl=served.options(),
    )
    with celery_worker(served, queue, log) as process:
        give_up_at = time.monotonic() + START_SECONDS_MAX
        while not caller.control.ping(destination=[f"{queue}@tls"], timeout=0.3, limit=1):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < give_up_at, log.read_text()
        sent = caller.send_task("interop.add", (20, 22), queue=queue)
        assert sent.get(timeout=PATIENCE_SECONDS) == 42
    caller.backend.result_consumer.stop()
    caller.close()
    pools.reset()  # type: ignore[no-untyped-call]  # kombu keeps one pool per address


def run_node(packages: Path, script: Path, *arguments: str) -> str:
    """What it said; fails unless it ends well."""
    made = subprocess.run(
        ["node", str(script), *arguments],
        env=os.environ | {"NODE_PATH": str(packages / "node_modules")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return made.stdout


def test_amqplib(served: Served, amqplib: Path) -> None:
    run_node(amqplib, HERE / "amqplib" / "tls.cjs", f"{served.url}/%2F", *served.files())


def test_rhea(served: Served, rhea: Path, unique: Callable[[str], str]) -> None:
    queue = unique("rhea")
    with pika_connection(served.broker.tls_port, served.context()) as connection:
        connection.channel().queue_declare(queue)
        port = str(served.broker.tls_port)
        run_node(rhea, HERE / "rhea" / "tls.cjs", HOST, port, queue, *served.files())


def proton_domain(served: Served) -> SSLDomain:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(served.identities.ours.file))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    if served.shown is not None:
        domain.set_credentials(str(served.shown.file), str(served.shown.key), None)
    return domain


def proton_trip(served: Served, port: int, queue: str) -> None:
    connection = BlockingConnection(
        f"amqps://guest:guest@{HOST}:{port}",
        timeout=PATIENCE_SECONDS,
        ssl_domain=proton_domain(served),
        allowed_mechs="PLAIN",
    )
    sender = connection.create_sender(queue)
    receiver = connection.create_receiver(queue, credit=COUNT)
    for _ in range(COUNT):
        sender.send(proton.Message(body=BODY))
    for _ in range(COUNT):
        # Kept: the body is a view of what the message holds.
        message = receiver.receive(PATIENCE_SECONDS)
        body = message.body
        assert isinstance(body, bytes | memoryview)
        assert bytes(body) == BODY
        receiver.accept()
    connection.close()


def test_proton(served: Served, unique: Callable[[str], str]) -> None:
    proton_trip(served, served.broker.tls_port, unique("proton"))


@contextmanager
def announcing_tls(port: int) -> Iterator[int]:
    """A relay to a plain port that says AMQP 1.0's TLS header first, which Proton leaves out."""
    listener = socket.create_server(("127.0.0.1", 0))
    broker = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
    broker.sendall(TLS_HEADER)
    assert broker.recv(8) == TLS_HEADER
    broker.settimeout(None)
    threads: list[threading.Thread] = []

    def relay() -> None:
        client, _ = listener.accept()
        with client:
            back = threading.Thread(target=pump, args=(broker, client), daemon=True)
            back.start()
            pump(client, broker)
            back.join()

    threads.append(threading.Thread(target=relay, daemon=True))
    threads[0].start()
    try:
        yield listener.getsockname()[1]
    finally:
        # Wakes the relay, also when the client has failed and never closed its side.
        with contextlib.suppress(OSError):
            broker.shutdown(socket.SHUT_RDWR)
        threads[0].join(PATIENCE_SECONDS)
        listener.close()
        broker.close()


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_proton_on_the_plain_port_after_the_tls_header(
    served: Served, unique: Callable[[str], str]
) -> None:
    with announcing_tls(served.broker.port) as port:
        proton_trip(served, port, unique("proton"))
