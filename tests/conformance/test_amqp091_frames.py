"""Golden frames: octets written down once from the specification, and what they mean.

They are compared both ways, so that an encoder and a decoder that are wrong in the same way are
caught.
"""

import pytest

from penstock.formats.amqp091_frames import HEARTBEAT, PROTOCOL_HEADER, encode_frame
from penstock.wire.amqp091.content import (
    BasicProperties,
    body_size_of,
    decode_properties,
    encode_header,
)
from penstock.wire.amqp091.methods_generated import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueUnbind,
    TxCommit,
    decode_method,
)

# channel, method, the whole frame
METHOD_FRAMES: list[tuple[int, Method, str]] = [
    (
        0,
        ConnectionStart(0, 9, {"copyright": True}, b"PLAIN AMQPLAIN", b"en_US"),
        (
            "01 0000 00000031 000a 000a 00 09 0000000c 09 636f70797269676874 74 01"
            "0000000e 504c41494e20414d51504c41494e 00000005 656e5f5553 ce"
        ),
    ),
    (
        0,
        ConnectionStartOk({}, "PLAIN", b"\x00guest\x00guest", "en_US"),
        (
            "01 0000 00000024 000a 000b 00000000 05 504c41494e 0000000c 006775657374006775657374"
            "05 656e5f5553 ce"
        ),
    ),
    (0, ConnectionTune(2047, 131_072, 60), "01 0000 0000000c 000a 001e 07ff 00020000 003c ce"),
    (0, ConnectionTuneOk(2047, 131_072, 60), "01 0000 0000000c 000a 001f 07ff 00020000 003c ce"),
    (0, ConnectionOpen("/"), "01 0000 00000008 000a 0028 01 2f 00 00 ce"),
    (0, ConnectionOpenOk(), "01 0000 00000005 000a 0029 00 ce"),
    (
        0,
        ConnectionClose(200, "bye", 0, 0),
        "01 0000 0000000e 000a 0032 00c8 03 627965 0000 0000 ce",
    ),
    (0, ConnectionBlocked("low"), "01 0000 00000008 000a 003c 03 6c6f77 ce"),
    (0, ConnectionUpdateSecret(b"s", "r"), "01 0000 0000000b 000a 0046 00000001 73 01 72 ce"),
    (1, ChannelOpen(), "01 0001 00000005 0014 000a 00 ce"),
    (1, ChannelOpenOk(), "01 0001 00000008 0014 000b 00000000 ce"),
    (1, ChannelFlow(active=True), "01 0001 00000005 0014 0014 01 ce"),
    (1, ChannelClose(404, "no", 50, 10), "01 0001 0000000d 0014 0028 0194 02 6e6f 0032 000a ce"),
    (1, ChannelCloseOk(), "01 0001 00000004 0014 0029 ce"),
    (
        1,
        ExchangeDeclare("x", "topic", durable=True),
        "01 0001 00000013 0028 000a 0000 01 78 05 746f706963 02 00000000 ce",
    ),
    (
        1,
        ExchangeBind("d", "s", "k", no_wait=True),
        "01 0001 00000011 0028 001e 0000 01 64 01 73 01 6b 01 00000000 ce",
    ),
    # RabbitMQ's exchange.unbind-ok has method id 51, not 41.
    (1, ExchangeUnbindOk(), "01 0001 00000004 0028 0033 ce"),
    (
        1,
        QueueDeclare("q", durable=True, exclusive=True, arguments={"x-max-length": 5}),
        (
            "01 0001 0000001f 0032 000a 0000 01 71 06"
            "00000012 0c 782d6d61782d6c656e677468 49 00000005 ce"
        ),
    ),
    (1, QueueDeclareOk("q", 3, 2), "01 0001 0000000e 0032 000b 01 71 00000003 00000002 ce"),
    (
        1,
        QueueBind("q", "x", "k"),
        "01 0001 00000011 0032 0014 0000 01 71 01 78 01 6b 00 00000000 ce",
    ),
    # queue.unbind has no no-wait bit.
    (
        1,
        QueueUnbind("q", "x", "k"),
        "01 0001 00000010 0032 0032 0000 01 71 01 78 01 6b 00000000 ce",
    ),
    (1, QueueDelete("q", if_empty=True), "01 0001 00000009 0032 0028 0000 01 71 02 ce"),
    (1, BasicQos(0, 10, global_=True), "01 0001 0000000b 003c 000a 00000000 000a 01 ce"),
    (
        1,
        BasicConsume("q", "t", no_ack=True),
        "01 0001 0000000f 003c 0014 0000 01 71 01 74 02 00000000 ce",
    ),
    (1, BasicCancel("t", no_wait=True), "01 0001 00000007 003c 001e 01 74 01 ce"),
    (
        1,
        BasicPublish("x", "k", mandatory=True),
        "01 0001 0000000b 003c 0028 0000 01 78 01 6b 01 ce",
    ),
    (
        1,
        BasicReturn(312, "NO_ROUTE", "x", "k"),
        "01 0001 00000013 003c 0032 0138 08 4e4f5f524f555445 01 78 01 6b ce",
    ),
    (
        1,
        BasicDeliver("t", 258, redelivered=True, exchange="x", routing_key="k"),
        "01 0001 00000013 003c 003c 01 74 0000000000000102 01 01 78 01 6b ce",
    ),
    (1, BasicGet("q", no_ack=True), "01 0001 00000009 003c 0046 0000 01 71 01 ce"),
    (1, BasicGetEmpty(), "01 0001 00000005 003c 0048 00 ce"),
    (1, BasicAck(1, multiple=True), "01 0001 0000000d 003c 0050 0000000000000001 01 ce"),
    (1, BasicReject(1, requeue=True), "01 0001 0000000d 003c 005a 0000000000000001 01 ce"),
    (
        1,
        BasicNack(1, multiple=False, requeue=True),
        "01 0001 0000000d 003c 0078 0000000000000001 02 ce",
    ),
    (1, ConfirmSelect(no_wait=True), "01 0001 00000005 0055 000a 01 ce"),
    (1, TxCommit(), "01 0001 00000004 005a 0014 ce"),
]


@pytest.mark.parametrize(("channel", "method", "golden"), METHOD_FRAMES)
def test_a_method_frame_has_its_octets_and_its_meaning(
    channel: int, method: Method, golden: str
) -> None:
    frame = bytes.fromhex(golden)
    assert encode_frame(1, channel, method.encode()).hex() == frame.hex()
    decoded = decode_method(frame[7:-1])
    assert type(decoded) is type(method)
    assert decoded.described() == method.described()


CONTENT_HEADERS = [
    (0, BasicProperties(), "003c 0000 0000000000000000 0000"),
    (100, BasicProperties(delivery_mode=2), "003c 0000 0000000000000064 1000 02"),
    (
        5,
        BasicProperties(
            content_type="a",
            content_encoding="b",
            headers={"h": None},
            delivery_mode=1,
            priority=9,
            correlation_id="c",
            reply_to="d",
            expiration="60",
            message_id="e",
            timestamp=1,
            type_="f",
            user_id="g",
            app_id="h",
            cluster_id="i",
        ),
        (
            "003c 0000 0000000000000005 fffc 0161 0162 00000003 0168 56 01 09 0163 0164 023630 0165"
            "0000000000000001 0166 0167 0168 0169"
        ),
    ),
]


@pytest.mark.parametrize(("size", "properties", "golden"), CONTENT_HEADERS)
def test_a_content_header_has_its_octets_and_its_meaning(
    size: int, properties: BasicProperties, golden: str
) -> None:
    header = bytes.fromhex(golden)
    assert encode_header(size, properties).hex() == header.hex()
    assert body_size_of(header) == size
    assert decode_properties(header) == properties


def test_the_protocol_header_and_the_heartbeat() -> None:
    assert PROTOCOL_HEADER.hex() == "414d515000000901"
    assert HEARTBEAT.hex() == "08000000000000ce"
    assert encode_frame(8, 0, b"") == HEARTBEAT
