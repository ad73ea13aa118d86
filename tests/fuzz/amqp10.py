"""Conversations of AMQP 1.0 for a real server: any performative in any order, often damaged."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from penstock.wire.amqp10.conditions_generated import CONDITIONS, INTERNAL_ERROR
from penstock.wire.amqp10.decoding import Reader
from penstock.wire.amqp10.framing import HEARTBEAT, PROTOCOL_HEADER, SASL_HEADER
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declare,
    Detach,
    Discharge,
    Disposition,
    End,
    Error,
    Flow,
    Header,
    Modified,
    Open,
    Properties,
    Received,
    Rejected,
    Released,
    SaslInit,
    Source,
    Target,
    TransactionalState,
    Transfer,
    decode_composite,
)
from penstock.wire.amqp10.values import Composite, Described, Symbol, ULong
from tests.fuzz.judging import Verdict, WrongAnswer
from tests.wire.amqp10.doubles import frame, sasl_frame
from tests.wire.damage import Recorded, mutate

ADDRESSES: tuple[object, ...] = (
    "q0", "q1", "durable", "/queues/q0", "/queues/durable", "/queues/absent", "/exchanges/amq.topic/a",
    "/exchanges/amq.fanout", "/queue/q0", "/exchange/amq.direct/k", "/topic/a.b", "/management", "", None,
    "$coordinator", "/queues/%zz", "x" * 300, 5,
)  # fmt: skip
OUTCOMES: tuple[Composite | None, ...] = (
    Accepted(), Accepted(), Rejected(), Released(), Modified(delivery_failed=True),
    Modified(undeliverable_here=True), Received(0, 0), None, TransactionalState(b"t", Accepted()),
    TransactionalState(b"\0\0\0\0\0\0\0\1"), TransactionalState(b""),
)  # fmt: skip
FILTERS: tuple[dict[str, object] | None, ...] = (
    None,
    None,
    {
        "s": Described(
            Symbol("apache.org:selector-filter:string"), "JMSPriority > 3 AND a LIKE 'x%'"
        )
    },
    {"s": Described(Symbol("apache.org:selector-filter:string"), "a = ((((")},
    {"o": Described(Symbol("rabbitmq:stream-offset-spec"), "first")},
    {"x": Described(Symbol("unknown:filter"), [1])},
    {"x": 5},
)
SECTIONS = (
    b"\x00\x53\x75\xa0\x05hello",  # data
    b"\x00\x53\x77\xa1\x02hi",  # amqp-value
    b"\x00\x53\x77\x40",  # null
    b"\x00\x53\x76\xc0\x03\x01\x54\x01",  # amqp-sequence
    b"",
    b"\x00\x53\x75\xa0\xffshort",
    b"\x00\x53\x99\x40",
)
UNSETTLED: tuple[dict[bytes, Composite | None] | None, ...] = (
    None,
    None,
    {b"\0": None, b"\1": Accepted()},
)
FLOW_PROPERTIES: tuple[dict[str, object] | None, ...] = (None, None, {"txn-id": b"\0" * 8})
FRAMES_MAX = 25
RUDE_SHARE = 0.02


def head(random: Random) -> bytes:
    parts = b""
    if random.random() < 0.6:
        parts += Header(
            random.random() < 0.4, random.choice((0, 4, 9, 255)), random.choice((None, 0, 100)),
            random.random() < 0.3, random.choice((0, 1)),
        ).encode()  # fmt: skip
    if random.random() < 0.6:
        parts += Properties(
            random.choice((None, "id", ULong(7), b"id")), random.choice((None, None, b"guest", b"eve")),
            random.choice(ADDRESSES), random.choice((None, "subject")), random.choice((None, "q1")),
        ).encode()  # fmt: skip
    return parts


def message(random: Random) -> bytes:
    return head(random) + random.choice(SECTIONS)


def attach(random: Random) -> Attach:
    is_receiver = random.random() < 0.5
    target: Composite | None = Target(
        random.choice(ADDRESSES), random.choice((0, 0, 1, 2)), dynamic=random.random() < 0.1
    )
    if random.random() < 0.15:
        target = Coordinator(["amqp:local-transactions"])
    return Attach(
        random.choice(("one", "two", "three")), random.choice((0, 0, 1, 2, 9)), is_receiver,
        random.choice((0, 1, 2)), random.choice((0, 1)),
        Source(
            random.choice(ADDRESSES), random.choice((0, 0, 2)),
            random.choice(("sessionend", "link-detach", "connection-close", "never")),
            random.choice((0, 0, 1)), random.random() < 0.1, None,
            random.choice((None, "move", "copy", "x")), random.choice(FILTERS),
            random.choice((None, Released(), Modified(delivery_failed=True))),
        ),
        target if random.random() < 0.95 else None,
        random.choice(UNSETTLED),
        initial_delivery_count=0 if random.random() < 0.9 else None,
    )  # fmt: skip


def links(random: Random) -> list[bytes]:
    """A sender and a receiver that are likely to be good, and a third link that is anything."""
    queue = random.choice(("q0", "durable"))
    sender = Attach(
        "out", 0, False, target=Target(queue), source=Source(), initial_delivery_count=0
    )
    receiver = Attach(
        "in", 1, True, random.choice((0, 1, 2)), source=Source(queue), target=Target()
    )
    any_link = attach(random)
    any_link.handle = 2
    return [
        frame(0, sender),
        frame(0, receiver),
        frame(0, any_link),
        frame(0, Flow(0, 1000, 0, 1000, 1, 0, random.choice((1, 10)))),
    ]


def transfer(random: Random) -> bytes:
    payload = message(random)
    if random.random() < 0.1:
        payload = (
            Declare().encode() if random.random() < 0.5 else Discharge(b"\0" * 8, True).encode()
        )
        payload = b"\x00\x53\x77" + payload
    said = Transfer(
        random.choice((0, 0, 1, 2)), random.choice((0, 1, 2, 3, 9, None)), random.choice((b"t", b"", None)), 0,
        random.choice((True, False, None)), random.random() < 0.1, None, random.choice(OUTCOMES),
        random.random() < 0.05, random.random() < 0.05,
    )  # fmt: skip
    return frame(0, said, payload)


MAKERS: tuple[Callable[[Random], Composite], ...] = (
    attach,
    attach,
    lambda random: Begin(None, 0, random.choice((0, 1, 100, 2**31)), 100),
    lambda random: Flow(
        random.choice((0, 0, 1, None)),
        random.choice((0, 5, 1000)),
        random.choice((0, 0, 7)),
        1000,
        random.choice((0, 0, 1, 2, None)),
        random.choice((0, 0, 0, 1, 77, None)),
        random.choice((0, 1, 50, 2**31)),
        None,
        random.random() < 0.2,
        random.random() < 0.3,
        random.choice(FLOW_PROPERTIES),
    ),
    lambda random: Disposition(
        random.random() < 0.7,
        random.choice((0, 0, 1, 3)),
        random.choice((None, 0, 5, 2**31)),
        random.random() < 0.6,
        random.choice(OUTCOMES),
    ),
    lambda random: Detach(random.choice((0, 0, 1, 2)), random.random() < 0.5),
)
# These end most conversations, so they are rare.
RUDE: tuple[Callable[[Random], Composite], ...] = (
    lambda random: End(),
    lambda random: Open("again"),
    lambda random: Close(),
)


class Conversations10:
    """Makes conversations from a pool of frames that is renewed from time to time."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._pool: list[bytes] = []
        self._beginnings: list[list[bytes]] = []
        self._handshake = (
            SASL_HEADER
            + sasl_frame(SaslInit("PLAIN", b"\0guest\0guest"))
            + PROTOCOL_HEADER
            + frame(0, Open("fuzz", idle_time_out=60_000))
            + frame(0, Begin(None, 0, 1000, 1000))
        )
        self.renew()

    def renew(self) -> None:
        random = self._random
        self._beginnings = [links(random) for _ in range(50)]
        self._pool = [transfer(random) for _ in range(150)] + [HEARTBEAT]
        for _ in range(300):
            is_rude = random.random() < RUDE_SHARE
            channel = random.choice((0, 1, 9)) if is_rude else 0
            makers = RUDE if is_rude else MAKERS
            self._pool.append(frame(channel, random.choice(makers)(random)))

    def next(self) -> tuple[bytes, bool]:
        """What a client says, and whether its handshake is whole."""
        random = self._random
        frames = [
            *random.choice(self._beginnings),
            *random.choices(self._pool, k=random.randrange(1, FRAMES_MAX)),
        ]
        if random.random() < 0.4:
            frames.append(frame(0, Close()))
        said = self._handshake + b"".join(frames)
        if random.random() < 0.5:
            return said, True
        recorded = Recorded(None, said, len(self._handshake))
        damaged = mutate(random, recorded, random.choice(self._pool))
        return damaged, damaged.startswith(self._handshake)


def judge(reply: bytes, is_cut: bool, verdict: Verdict) -> None:
    """Whether a server's words are whole frames, and their conditions known and not our own fault."""
    while reply:
        if reply.startswith(b"AMQP"):
            if len(reply) < 8 and not is_cut:
                raise WrongAnswer("a cut protocol header")
            reply = reply[8:]
            continue
        size = int.from_bytes(reply[:4], "big")
        if size < 8 or len(reply) < size:
            if is_cut:
                return
            raise WrongAnswer(f"a frame of {size} octets ends after {len(reply)}")
        if size > 8:
            judge_frame(reply[:size], verdict)
        reply = reply[size:]


def judge_frame(piece: bytes, verdict: Verdict) -> None:
    said = decode_composite(Reader(piece, 4 * piece[4], len(piece)))
    if isinstance(said, (Close, End, Detach)):
        error: Error | None = said.error
        name = type(said).__name__.lower()
        condition = "" if error is None else str(error.condition)
        verdict.count(f"{name} {condition}".strip())
        if error is not None and (condition == INTERNAL_ERROR or condition not in CONDITIONS):
            raise WrongAnswer(f"{name} {condition}: {error.description}")
