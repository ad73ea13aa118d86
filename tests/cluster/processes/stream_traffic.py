"""Publishers that number their messages, readers of a stream, and what the servers have of it on disk."""

import base64
import contextlib
import json
import urllib.error
import urllib.request

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.cluster.processes.servers import POLL_SECONDS, ClusterServer, RunningCluster
from tests.cluster.processes.traffic import (
    HEARTBEAT_SECONDS,
    Client,
    Ledger,
    connected,
    with_channel,
)

STREAM = "log"
PAGE = f"/api/streams/%2F/{STREAM}"
# A few messages each.
SEGMENT_BYTES = 4096


def declare_stream(cluster: RunningCluster) -> None:
    arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": SEGMENT_BYTES}
    with_channel(
        cluster,
        lambda channel: channel.queue_declare(STREAM, durable=True, arguments=arguments),
    )


class NumberedPublisher(Client):
    """Counts its messages, and sends one that is in doubt again with the same number."""

    def __init__(self, cluster: RunningCluster, ledger: Ledger, name: str) -> None:
        self._name = name
        self._number = 1
        super().__init__(cluster, ledger)

    def work(self) -> None:
        with connected(self.cluster, HEARTBEAT_SECONDS) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            while not self.is_ending.is_set():
                body = f"{self._name} {self._number}".encode()
                headers = {"x-publisher-id": self._name, "x-publisher-sequence": self._number}
                properties = pika.BasicProperties(delivery_mode=2, headers=headers)
                self.ledger.in_doubt.add(body)
                channel.basic_publish("", STREAM, body, properties)
                self.ledger.confirm([body])
                self._number += 1


class Reader(Client):
    """Reads from the offset after the last one that it saw, and remembers all of them."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.seen: dict[int, bytes] = {}
        self.next = 0
        super().__init__(cluster, Ledger())

    def work(self) -> None:
        with connected(self.cluster, HEARTBEAT_SECONDS) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=50)
            found = channel.consume(
                STREAM,
                arguments={"x-stream-offset": self.next},
                inactivity_timeout=POLL_SECONDS,
            )
            for method, properties, body in found:
                if method is not None:
                    offset = (properties.headers or {})["x-stream-offset"]
                    assert isinstance(offset, int)
                    assert offset == self.next, f"offset {offset} in place of {self.next}"
                    self.seen[offset] = body
                    self.next += 1
                    channel.basic_ack(method.delivery_tag)
                if self.is_ending.is_set():
                    return


def everything(cluster: RunningCluster) -> list[bytes]:
    """What the stream has, from its first message to its present end, in order."""
    read: list[list[bytes]] = []

    def take(channel: BlockingChannel) -> None:
        count = channel.queue_declare(STREAM, passive=True).method.message_count
        bodies: list[bytes] = []
        channel.basic_qos(prefetch_count=50)
        if count:
            for method, _, body in channel.consume(STREAM, arguments={"x-stream-offset": "first"}):
                bodies.append(body)
                channel.basic_ack(method.delivery_tag)
                if len(bodies) == count:
                    break
        read.append(bodies)

    with_channel(cluster, take)
    return read[-1]


def logs(server: ClusterServer) -> dict[str, bytes]:
    folder = server.data / "streams"
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.log"))
    }


def end_of(server: ClusterServer) -> int:
    """Where the stream ends for bulk readers of a server; -1 when it does not say."""
    code, text = page(server, PAGE)
    return int(json.loads(text)["safe_end_offset"]) if code == 200 else -1


def page(server: ClusterServer, path: str) -> tuple[int, str]:
    """With the login of the user guest."""
    token = base64.b64encode(b"guest:guest").decode()
    request = urllib.request.Request(f"{server.http}{path}")
    request.add_header("Authorization", f"Basic {token}")
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.read().decode("latin-1")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode("latin-1")
    except OSError:
        return 0, ""


def await_equal_logs(cluster: RunningCluster) -> None:
    """All servers run, and have the same octets of everything that is committed."""

    def are_equal() -> bool:
        root = cluster.whole_root()
        ends = {end_of(server) for server in cluster.servers}
        with contextlib.suppress(FileNotFoundError):
            found = [logs(server) for server in cluster.servers]
            return len(ends) == 1 and -1 not in ends and found.count(logs(root)) == len(found)
        return False

    cluster.until("the logs of all servers are equal", are_equal)
