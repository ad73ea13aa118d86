"""Golden frames: octets written down once from the specification, and what they mean.

They are compared both ways, so that an encoder and a decoder that are wrong in the same way are
caught. Where a performative has several spellings, the compact one is ours.
"""

import pytest

from penstock.wire.amqp10.decoding import Reader
from penstock.wire.amqp10.framing import (
    AMQP_FRAME,
    HEARTBEAT,
    PROTOCOL_HEADER,
    SASL_FRAME,
    SASL_HEADER,
    encode_frame,
)
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Attach,
    Begin,
    Close,
    Coordinator,
    Data,
    Declare,
    Declared,
    DeleteOnClose,
    Detach,
    Discharge,
    Disposition,
    End,
    Error,
    Flow,
    Header,
    MessageAnnotations,
    Modified,
    Open,
    Properties,
    Received,
    Rejected,
    Released,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Source,
    Target,
    TransactionalState,
    Transfer,
    decode_composite,
)
from penstock.wire.amqp10.values import Composite, Symbol, Timestamp, ULong

# type, channel, performative, payload, the whole frame
FRAMES: list[tuple[int, int, Composite, bytes, str]] = [
    (
        SASL_FRAME,
        0,
        SaslMechanisms(["PLAIN", "ANONYMOUS"]),
        b"",
        "00000022 02 01 0000 005340 c015 01 e012 02 a3 05 504c41494e 09 414e4f4e594d4f5553",
    ),
    (
        SASL_FRAME,
        0,
        SaslInit("PLAIN", b"\x00guest\x00guest"),
        b"",
        "00000023 02 01 0000 005341 c016 02 a305504c41494e a00c006775657374006775657374",
    ),
    (SASL_FRAME, 0, SaslChallenge(b"r"), b"", "00000011 02 01 0000 005342 c004 01 a00172"),
    (SASL_FRAME, 0, SaslResponse(b"r"), b"", "00000011 02 01 0000 005343 c004 01 a00172"),
    (SASL_FRAME, 0, SaslOutcome(0), b"", "00000010 02 01 0000 005344 c003 01 5000"),
    (
        AMQP_FRAME,
        0,
        Open("c", "h", 512, 15, 1000),
        b"",
        "00000021 02 00 0000 005310 c014 05 a10163 a10168 7000000200 60000f 70000003e8",
    ),
    (
        AMQP_FRAME,
        1,
        Begin(None, 0, 100, 2048, 7),
        b"",
        "00000019 02 00 0001 005311 c00c 05 40 43 5264 7000000800 5207",
    ),
    (
        AMQP_FRAME,
        1,
        Attach(
            "l",
            0,
            True,
            0,
            1,
            Source("q", capabilities=["queue"]),
            Target(),
            initial_delivery_count=0,
        ),
        b"",
        (
            "0000003a 02 00 0001 005312 c02d 0a a1016c 43 41 5000 5001"
            "005328 c017 0b a10171 40 40 40 40 40 40 40 40 40 e00801a3057175657565"
            "00532945 40 40 43"
        ),
    ),
    (
        AMQP_FRAME,
        0,
        Flow(1, 100, 2, 200, 0, 3, 50, drain=True),
        b"",
        "0000001d 02 00 0000 005313 c010 09 5201 5264 5202 52c8 43 5203 5232 40 41",
    ),
    (
        AMQP_FRAME,
        0,
        Transfer(0, 1, b"\x01", 0, False),
        b"body",
        "0000001a 02 00 0000 005314 c009 05 43 5201 a00101 43 42 626f6479",
    ),
    (
        AMQP_FRAME,
        0,
        Disposition(True, 1, 3, True, Accepted()),
        b"",
        "00000018 02 00 0000 005315 c00b 05 41 5201 5203 41 00532445",
    ),
    (
        AMQP_FRAME,
        0,
        Detach(0, True, Error("amqp:not-found", "x")),
        b"",
        (
            "00000029 02 00 0000 005316 c01c 03 43 41"
            "00531d c014 02 a30e616d71703a6e6f742d666f756e64 a10178"
        ),
    ),
    (AMQP_FRAME, 3, End(), b"", "0000000c 02 00 0003 00531745"),
    (AMQP_FRAME, 0, Close(), b"", "0000000c 02 00 0000 00531845"),
]

# Inside other things.
COMPOSITES: list[tuple[Composite, str]] = [
    (Received(1, 256), "005323 c00c 02 5201 800000000000000100"),
    (Accepted(), "00532445"),
    (Rejected(), "00532545"),
    (Released(), "00532645"),
    (Modified(True, False, {Symbol("a"): True}), "005327 c00a 03 41 42 c10502a3016141"),
    (DeleteOnClose(), "00532b45"),
    (Coordinator(["a"]), "005330 c007 01 e00401a30161"),
    (Declare(), "00533145"),
    (Discharge(b"t", True), "005332 c005 02 a00174 41"),
    (Declared(b"t"), "005333 c004 01 a00174"),
    (TransactionalState(b"t", Accepted()), "005334 c008 02 a00174 00532445"),
    (Header(durable=True, ttl=1000, delivery_count=2), "005370 c00b 05 41 40 70000003e8 40 5202"),
    (MessageAnnotations({Symbol("x"): ULong(1)}), "005372 c106 02 a30178 5301"),
    (
        Properties("id", content_type="a/b", creation_time=Timestamp(1)),
        "005373 c01a 0a a1026964 40 40 40 40 40 a303612f62 40 40 830000000000000001",
    ),
    (ApplicationProperties({"k": 5}), "005374 c106 02 a1016b 5505"),
    (Data(b"ab"), "005375 a0026162"),
    (AmqpSequence([True, None]), "005376 c003 02 41 40"),
    (AmqpValue("a"), "005377 a10161"),
]


@pytest.mark.parametrize(("kind", "channel", "said", "payload", "octets"), FRAMES, ids=repr)
def test_frames(kind: int, channel: int, said: Composite, payload: bytes, octets: str) -> None:
    whole = bytes.fromhex(octets)
    assert encode_frame(kind, channel, said.encode() + payload).hex() == whole.hex()
    assert int.from_bytes(whole[:4], "big") == len(whole)
    reader = Reader(whole, 8, len(whole))
    assert decode_composite(reader) == said
    assert whole[reader.at :] == payload


@pytest.mark.parametrize(("composite", "octets"), COMPOSITES, ids=repr)
def test_composites(composite: Composite, octets: str) -> None:
    whole = bytes.fromhex(octets)
    assert composite.encode().hex() == whole.hex()
    assert decode_composite(Reader(whole, 0, len(whole))) == composite


def test_headers_and_heartbeats() -> None:
    assert bytes.fromhex("414d515000010000") == PROTOCOL_HEADER
    assert bytes.fromhex("414d515003010000") == SASL_HEADER
    assert bytes.fromhex("0000000802000000") == HEARTBEAT
