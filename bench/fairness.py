"""How long one client waits while another does something large: `python -m bench.fairness`.

A prober publishes a small message to a queue of its own and waits until it is delivered, again and
again. At the same time another connection does one large operation. The figures are the prober's
round trips during that operation; the longest one shows how long the broker served no other client.
"""

import argparse
import dataclasses
import multiprocessing
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event

from bench import frames
from bench.brokers import BROKERS
from bench.running import HOST, RunningBroker
from bench.session import DELETE_NO_WAIT_BIT, NO_ARGUMENTS, Session

# The sizes that an outside test found to hold the broker for seconds.
DECLARES = 20_000
BINDINGS = 5_000
BINDING_ARGUMENTS = 20
HEADERS_PUBLISHES = 200
STAGED = 1_000_000
BACKLOG = 1_000_000
FANOUT_QUEUES = 2_000
FANOUT_PUBLISHES = 300
# Messages per write when staging or filling a queue.
CHUNK = 10_000
BODY = b"sixteen octets.."

TX_SELECT, TX_SELECT_OK = (90, 10), (90, 11)
TX_COMMIT, TX_COMMIT_OK = (90, 20), (90, 21)
QUEUE_PURGE, QUEUE_PURGE_OK = (50, 30), (50, 31)
BASIC_GET_EMPTY = (60, 72)
BASIC_GET = (60, 70)
BIND_NO_WAIT = b"\x01"


@dataclasses.dataclass(frozen=True, slots=True)
class RoundTrips:
    """The prober's round trips during one case, in milliseconds."""

    case: str
    seconds: float
    count: int
    median: float
    p99: float
    longest: float


def probe(
    port: int, running: Event, over: Event, times: "multiprocessing.Queue[list[float]]"
) -> None:
    """A process of its own: the large operation must not slow down the measurement."""
    session = Session(HOST, port)
    session.declare_queues(["fairness.probe"], durable=False)
    session.consume(["fairness.probe"], automatic_acks=True, prefetch=0, arguments={})
    message = frames.publish("", "fairness.probe", BODY, persistent=False)
    running.set()
    found: list[float] = []
    while not over.is_set():
        began = time.perf_counter()
        session.socket.sendall(message)
        session.expect(frames.BASIC_DELIVER)
        found.append(time.perf_counter() - began)
    session.close()
    times.put(found)


def probed(port: int, case: str, work: Callable[[], None]) -> RoundTrips:
    running, over = multiprocessing.Event(), multiprocessing.Event()
    times: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
    process = multiprocessing.Process(target=probe, args=(port, running, over, times))
    process.start()
    running.wait()
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    over.set()
    found = sorted(times.get())
    process.join()
    return RoundTrips(
        case,
        seconds,
        len(found),
        found[len(found) // 2] * 1000,
        found[min(len(found) - 1, len(found) * 99 // 100)] * 1000,
        found[-1] * 1000,
    )


def fence(session: Session) -> None:
    """Returns when everything sent before was done."""
    session.call(
        BASIC_GET, b"\0\0" + frames.short_string("fairness.fence") + b"\1", BASIC_GET_EMPTY
    )


def fill(session: Session, queue: str, count: int) -> None:
    message = frames.publish("", queue, BODY, persistent=True)
    for _ in range(count // CHUNK):
        session.socket.sendall(message * CHUNK)
    fence(session)


def measure_declares(port: int, session: Session) -> RoundTrips:
    names = [f"fairness.declared.{number}" for number in range(DECLARES)]
    found = probed(port, "declares", lambda: session.declare_queues(names, durable=True))
    deletes = [b"\0\0" + frames.short_string(name) + bytes([DELETE_NO_WAIT_BIT]) for name in names]
    session.socket.sendall(
        b"".join(frames.method(1, frames.QUEUE_DELETE, arguments) for arguments in deletes)
    )
    fence(session)
    return found


def measure_headers(port: int, session: Session) -> RoundTrips:
    session.declare_exchange("fairness.headers", "headers")
    session.declare_queues(["fairness.bound"], durable=False)
    for number in range(BINDINGS):
        wanted = {f"h{index}": f"v{index}" for index in range(BINDING_ARGUMENTS - 1)}
        table = frames.field_table({**wanted, "last": number})
        names = frames.short_string("fairness.bound") + frames.short_string("fairness.headers")
        arguments = b"\0\0" + names + b"\0" + BIND_NO_WAIT + table
        session.socket.sendall(frames.method(1, frames.QUEUE_BIND, arguments))
    fence(session)
    headers = {f"h{index}": f"v{index}" for index in range(BINDING_ARGUMENTS - 1)}
    publishes = b""
    for number in range(HEADERS_PUBLISHES):
        table = frames.field_table({**headers, "last": number % 7})
        header = struct.pack(">HHQH", 60, 0, len(BODY), frames.PROPERTY_HEADERS) + table
        publishes += frames.publish_method("fairness.headers", "")
        publishes += frames.frame(frames.FRAME_HEADER, 1, header)
        publishes += frames.frame(frames.FRAME_BODY, 1, BODY)

    def work() -> None:
        session.socket.sendall(publishes)
        fence(session)

    found = probed(port, "headers", work)
    session.delete_exchange("fairness.headers")
    session.delete_queues(["fairness.bound"])
    return found


def measure_fanout(port: int, session: Session) -> RoundTrips:
    names = [f"fairness.fanned.{number}" for number in range(FANOUT_QUEUES)]
    session.declare_queues(names, durable=False)
    session.declare_exchange("fairness.fanout", "fanout")
    for name in names:
        ends = frames.short_string(name) + frames.short_string("fairness.fanout")
        arguments = b"\0\0" + ends + b"\0" + BIND_NO_WAIT + NO_ARGUMENTS
        session.socket.sendall(frames.method(1, frames.QUEUE_BIND, arguments))
    fence(session)
    message = frames.publish("fairness.fanout", "", BODY, persistent=False)

    def work() -> None:
        session.socket.sendall(message * FANOUT_PUBLISHES)
        fence(session)

    found = probed(port, "fanout", work)
    session.delete_exchange("fairness.fanout")
    session.delete_queues(names)
    return found


def measure_commit(port: int, session: Session) -> RoundTrips:
    session.declare_queues(["fairness.committed"], durable=True)
    writer = Session(HOST, port)
    writer.call(TX_SELECT, b"", TX_SELECT_OK)
    fill(writer, "fairness.committed", STAGED)
    found = probed(port, "commit", lambda: void(writer.call(TX_COMMIT, b"", TX_COMMIT_OK)))
    count = session.ready_count("fairness.committed")
    assert count == STAGED, f"{count} of {STAGED} messages were committed"
    writer.close()
    session.delete_queues(["fairness.committed"])
    return found


def measure_purge(port: int, session: Session) -> RoundTrips:
    session.declare_queues(["fairness.purged"], durable=True)
    fill(session, "fairness.purged", BACKLOG)
    purge = b"\0\0" + frames.short_string("fairness.purged") + b"\0"
    found = probed(port, "purge", lambda: void(session.call(QUEUE_PURGE, purge, QUEUE_PURGE_OK)))
    session.delete_queues(["fairness.purged"])
    return found


def measure_delete(port: int, session: Session) -> RoundTrips:
    session.declare_queues(["fairness.deleted"], durable=True)
    fill(session, "fairness.deleted", BACKLOG)
    return probed(port, "delete", lambda: session.delete_queues(["fairness.deleted"]))


def measure_nack(port: int, session: Session) -> RoundTrips:
    """Half a million unacknowledged messages come back at once, because their channel's client is gone."""
    session.declare_queues(["fairness.returned"], durable=True)
    fill(session, "fairness.returned", BACKLOG // 2)
    holder = Session(HOST, port)
    holder.consume(["fairness.returned"], automatic_acks=False, prefetch=0, arguments={})
    for _ in range(BACKLOG // 2 - 1):
        holder.expect(frames.BASIC_DELIVER)

    def work() -> None:
        # The prober's process has inherited the socket, so closing it here would not be enough.
        holder.socket.shutdown(socket.SHUT_RDWR)
        holder.close()
        while session.ready_count("fairness.returned") < BACKLOG // 2:
            time.sleep(0.05)

    found = probed(port, "requeue", work)
    session.delete_queues(["fairness.returned"])
    return found


def void(answer: bytes) -> None:
    del answer


CASES: dict[str, Callable[[int, Session], RoundTrips]] = {
    "declares": measure_declares,
    "headers": measure_headers,
    "fanout": measure_fanout,
    "commit": measure_commit,
    "purge": measure_purge,
    "delete": measure_delete,
    "requeue": measure_nack,
}


def measure(broker: RunningBroker, cases: list[str]) -> Iterator[RoundTrips]:
    session = Session(HOST, broker.port)
    session.declare_queues(["fairness.fence"], durable=False)
    try:
        for case in cases:
            yield CASES[case](broker.port, session)
    finally:
        session.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fairness", description=__doc__)
    parser.add_argument("--brokers", default="penstock,penstock-data", help=", ".join(BROKERS))
    parser.add_argument("--cases", default=",".join(CASES), help=", ".join(CASES))
    options = parser.parse_args(arguments)
    sys.stdout.write("broker          case      seconds  trips  median ms   p99 ms  longest ms\n")
    for name in options.brokers.split(","):
        broker = BROKERS[name]()
        try:
            for found in measure(broker, options.cases.split(",")):
                sys.stdout.write(
                    f"{name:15s} {found.case:9s} {found.seconds:7.2f} {found.count:6d} "
                    f"{found.median:10.2f} {found.p99:8.1f} {found.longest:11.1f}\n"
                )
                sys.stdout.flush()
        finally:
            broker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
