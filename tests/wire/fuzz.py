"""A seeded fuzzer of the AMQP 0-9-1 machine: valid conversations, damaged.

Each input is one side of a recorded conversation, mutated, cut into pieces and fed to a fresh
machine of the other side, which must not raise, must keep little, must say only whole frames with
known codes, and must come to its end when time passes.

Longer runs: `python -m tests.wire.fuzz SEED COUNT`. A failure prints the number of its input;
`check(SEED, NUMBER)` repeats exactly that one.
"""

from __future__ import annotations

from random import Random

from penstock.formats.amqp091_frames import HEARTBEAT
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.methods_generated import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionOpenOk,
    ExchangeDeclare,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from penstock.wire.amqp091.reply_codes_generated import REPLY_NAMES
from penstock.wire.amqp091.states import ConnectionState, Role
from tests.wire.damage import Recorded, check_one, main, mutate, rearrange
from tests.wire.doubles import GreetingClient, Machine, Pair, decode_frames

# Small, so that inputs reach them.
LIMITS = Limits(frame_max=4096, channel_max=5, message_bytes_max=20_000, assembly_bytes_max=30_000)
BUFFERED_MAX = LIMITS.frame_max + 8 + LIMITS.assembly_bytes_max
BEFORE_TUNING_MAX = 8192 + 8

ARGUMENTS: dict[str, object] = {"x-max-length": 5, "x-deep": {"list": [1, 2.5, None, "é", b"\0"]}}
PROPERTIES = BasicProperties(
    content_type="text/plain", headers=dict(ARGUMENTS), delivery_mode=2, expiration="1000"
)


class ReadyClient(GreetingClient):
    """Opens the channels of the recording as soon as it may."""

    def method_received(self, channel: int, method: Method) -> None:
        super().method_received(channel, method)
        if isinstance(method, ConnectionOpenOk):
            self.connection.open_channel(1)
            self.connection.open_channel(2)


def machine_for(recorded: Recorded[Role]) -> Machine:
    machine = Machine(recorded.listener_role, LIMITS)
    if recorded.listener_role is Role.CLIENT:
        machine.listener = ReadyClient()
        machine.listener.connection = machine.connection
        machine.connection.listener = machine.listener
    return machine


def record() -> list[Recorded[Role]]:
    """Both sides of a conversation that touches most of the machine."""
    pair = Pair(limits=LIMITS)
    pair.connect()
    sizes = len(pair.client_said), len(pair.server_said)
    client = pair.client.connection
    server = pair.server.connection
    client.open_channel(2)
    pair.transfer()
    client.send_method(1, QueueDeclare("q", durable=True, arguments=ARGUMENTS))
    client.send_method(1, ExchangeDeclare("x", "topic"))
    client.send_method(2, ConfirmSelect())
    client.send_method(1, BasicConsume("q", "tag"))
    publish = BasicPublish("amq.topic", "a.b").encode()
    for size in (0, 40, 40):
        client.send_content(1, publish, encode_header(size, PROPERTIES), b"b" * size)
        client.send_content(2, publish, encode_header(size, BasicProperties()), b"c" * size)
    client.send_content(1, publish, encode_header(4500, PROPERTIES), b"b" * 4500)
    server.send_method(1, QueueDeclareOk("q", 1, 2))
    server.send_method(1, BasicConsumeOk("tag"))
    deliver = BasicDeliver("tag", 1, redelivered=False, exchange="x", routing_key="k").encode()
    got = BasicGetOk(2, redelivered=True, exchange="", routing_key="q", message_count=3).encode()
    returned = BasicReturn(312, "NO_ROUTE", "x", "k").encode()
    for method in (deliver, got, returned, deliver):
        server.send_content(1, method, encode_header(40, PROPERTIES), b"d" * 40)
    server.send_content(1, deliver, encode_header(4500, PROPERTIES), b"e" * 4500)
    for connection in (client, server):
        connection.send_method(1, BasicAck(1, multiple=True))
        connection.send_method(2, BasicNack(2))
        connection.outgoing.push(HEARTBEAT)
    server.send_method(0, ConnectionBlocked("memory"))
    pair.transfer()
    client.close_channel(1, ChannelFault(200, "done"))
    pair.transfer()
    client.close(ConnectionFault(200, "bye"))
    pair.transfer()
    return [
        Recorded(Role.SERVER, pair.client_said, sizes[0]),
        Recorded(Role.CLIENT, pair.server_said, sizes[1]),
    ]


def swap_frames(random: Random, data: bytes) -> bytes:
    """Whole frames moved, doubled, dropped or put on another channel: valid framing, wrong order."""
    frames = []
    position = 8 if data.startswith(b"AMQP") else 0
    head = data[:position]
    while position < len(data):
        size = 8 + int.from_bytes(data[position + 3 : position + 7], "big")
        frames.append(data[position : position + size])
        position += size
    rearrange(random, frames, change_channel, 1)
    return head + b"".join(frames)


def change_channel(random: Random, frame: bytes) -> bytes:
    return frame[:1] + bytes((0, random.randrange(8))) + frame[3:]


def run(random: Random, machine: Machine, data: bytes) -> None:
    connection = machine.connection
    said = b""
    if connection.role is Role.CLIENT:
        connection.start()
        said += machine.flush()
    position = 0
    # Sometimes we close a channel in the middle of what the peer says.
    closes_at = random.randrange(len(data) + 1) if random.random() < 0.1 else len(data)
    largest = random.choice((3, 60, 700, 700, 4000, 4000, 1 << 20, 1 << 20))
    while position < len(data):
        size = random.randint(1, largest)
        machine.receive(data[position : position + size])
        position += size
        bound = max(BUFFERED_MAX, BEFORE_TUNING_MAX)
        assert connection.buffered() <= bound, connection.buffered()
        if position > closes_at:
            connection.close_channel(2, ChannelFault(404, "no queue 'q'"))
    said += machine.flush()
    for frame_number, (_, method) in enumerate(decode_frames(said)):
        if isinstance(method, (ChannelClose, ConnectionClose)):
            assert method.reply_code in REPLY_NAMES, (frame_number, method)
    # Never stuck: time alone brings it to its end.
    connection.tick(2)
    connection.tick(10**9)
    connection.tick(2 * 10**9)
    machine.flush()
    assert connection.state is ConnectionState.ENDED
    assert connection.buffered() == 0
    ended = machine.listener.named("connection_ended")
    assert len(ended) == 1, ended
    assert machine.transport.closed or machine.transport.aborted
    assert machine.listener.calls[-1][0] in {"connection_ended", "method"}


def attempt(random: Random, recorded: Recorded[Role], other: bytes) -> None:
    if random.random() < 0.2:
        data = swap_frames(random, recorded.said)
    else:
        data = mutate(random, recorded, other)
    run(random, machine_for(recorded), data)


def check(seed: int, number: int, recordings: list[Recorded[Role]] | None = None) -> None:
    check_one("tests.wire.fuzz", seed, number, recordings or record(), attempt)


def fuzz(seed: int, count: int) -> None:
    recordings = record()
    for number in range(count):
        check(seed, number, recordings)


if __name__ == "__main__":
    main(fuzz)
