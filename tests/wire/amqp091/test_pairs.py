"""A client and a server machine wired together say and hear the same however bytes are cut."""

import pytest

from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.methods_generated import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    BasicReturn,
    ChannelFlow,
    ExchangeBind,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.wire.doubles import Pair


def converse(seed: int | None) -> Pair:
    pair = Pair(seed, Limits(frame_max=4096))
    pair.connect()
    client, server = pair.client.connection, pair.server.connection
    client.open_channel(2)
    client.send_method(1, QueueDeclare("q", arguments={"x-expires": 1, "deep": {"list": [1, "a"]}}))
    client.send_method(1, ExchangeBind("a", "b", "c"))
    server.send_method(1, QueueDeclareOk("q", 7, 1))
    pair.transfer()
    publish = BasicPublish("x", "key").encode()
    properties = BasicProperties(headers={"a": 1}, delivery_mode=2)
    for size in (0, 1, 100, 4088, 4089, 10_000):
        header = encode_header(size, properties)
        client.send_content(1 + size % 2, publish, header, b"p" * size)
        deliver = BasicDeliver("t", size + 1, redelivered=False, exchange="x", routing_key="k")
        server.send_content(1, deliver.encode(), header, b"d" * size)
        client.send_method(1, BasicAck(size + 1))
    returned = BasicReturn(312, "NO_ROUTE", "x", "key").encode()
    server.send_content(2, returned, encode_header(3, properties), b"abc")
    server.send_method(2, BasicAck(3, multiple=True))
    server.send_method(1, ChannelFlow(active=False))
    pair.transfer()
    server.close_channel(2, ChannelFault(404, "no queue"))
    pair.transfer()
    client.close(ConnectionFault(200, "bye"))
    pair.transfer()
    return pair


@pytest.mark.parametrize("seed", range(40))
def test_bytes_and_calls_are_equal_whatever_the_split(seed: int) -> None:
    whole = converse(None)
    split = converse(seed)
    assert split.client_said == whole.client_said
    assert split.server_said == whole.server_said
    assert split.client.listener.calls == whole.client.listener.calls
    assert split.server.listener.calls == whole.server.listener.calls


def test_the_whole_conversation_was_heard() -> None:
    pair = converse(None)
    assert len(pair.server.listener.named("content")) == 6
    assert len(pair.server.listener.named("ack")) == 6
    assert len(pair.client.listener.named("content")) == 7
    assert pair.client.listener.named("ack") == [(2, 3, True)]
    assert pair.client.listener.named("channel_ended") == [(2, (404, "NOT_FOUND - no queue", True))]
    assert pair.server.listener.named("connection_ended") == [(None,)]
