"""Conversations of AMQP 0-9-1 for a real server: any method in any order, often damaged."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from penstock.formats.amqp091_frames import HEARTBEAT, METHOD_FRAME, PROTOCOL_HEADER
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.methods_generated import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicReject,
    ChannelClose,
    ChannelFlow,
    ChannelOpen,
    ClusterControl,
    ClusterHello,
    ClusterStream,
    ConfirmSelect,
    ConnectionClose,
    ConnectionUpdateSecret,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
    decode_method,
)
from penstock.wire.amqp091.reply_codes_generated import REPLY_NAMES
from tests.fuzz.judging import Verdict, WrongAnswer
from tests.wire.damage import Recorded, mutate
from tests.wire.doubles import handshake, method_frame

INTERNAL_ERROR = 541
QUEUES = ("q0", "q1", "q2", "durable", "stream", "absent")
EXCHANGES = ("", "amq.direct", "amq.topic", "amq.headers", "amq.fanout", "x0", "x1", "delayed")
KEYS = ("", "q0", "q1", "durable", "stream", "a.b", "#", "a.*", "k" * 255)
KINDS = (
    "direct",
    "topic",
    "fanout",
    "headers",
    "x-consistent-hash",
    "x-delayed-message",
    "nonsense",
)
TAGS = ("", "c1", "c2")
NUMBERS = (-1, 0, 1, 2, 7, 100, 2**31, 2**63 - 1)
VALUES: tuple[object, ...] = (
    *NUMBERS, True, False, None, "", "x", "é", b"\xff", 1.5, [], [1, "a", None], {}, {"a": {"b": [{}]}},
)  # fmt: skip
QUEUE_ARGUMENTS = (
    "x-max-length", "x-max-length-bytes", "x-message-ttl", "x-expires", "x-dead-letter-exchange",
    "x-dead-letter-routing-key", "x-max-priority", "x-overflow", "x-queue-type", "x-delivery-limit",
    "x-single-active-consumer", "x-queue-mode", "x-max-age", "x-stream-max-segment-size-bytes",
    "alternate-exchange", "x-delayed-type", "x-match", "x-priority", "x-stream-offset", "x-unknown",
)  # fmt: skip
TEXTS = ("drop-head", "reject-publish", "reject-publish-dlx", "classic", "quorum", "stream", "amq.fanout",
         "q0", "all", "any", "first", "last", "next", "1D", "fanout")  # fmt: skip
HEADERS: tuple[dict[str, object] | None, ...] = (
    None,
    {"CC": ["q1"]},
    {"BCC": 5},
    {"x-delay": 10},
)
METHODS_MAX = 25
RUDE_SHARE = 0.02


def arguments(random: Random) -> dict[str, object]:
    if random.random() < 0.6:
        return {}
    return {
        random.choice(QUEUE_ARGUMENTS): random.choice(VALUES)
        if random.random() < 0.5
        else random.choice(TEXTS)
        for _ in range(random.randrange(1, 4))
    }


def flag(random: Random) -> bool:
    return random.random() < 0.3


def declared_queue(random: Random) -> QueueDeclare:
    name = random.choice(QUEUES)
    if name == "durable":
        return QueueDeclare(name, durable=True)
    if name == "stream":
        return QueueDeclare(name, durable=True, arguments={"x-queue-type": "stream"})
    exclusive = flag(random)
    return QueueDeclare(
        name if not exclusive else "", flag(random), flag(random), exclusive, True, flag(random),
        arguments(random),
    )  # fmt: skip


def declared_exchange(random: Random) -> ExchangeDeclare:
    return ExchangeDeclare(
        random.choice(EXCHANGES), random.choice(KINDS), flag(random), flag(random), flag(random),
        flag(random), flag(random), arguments(random),
    )  # fmt: skip


def bound(random: Random, kind: type[QueueBind | QueueUnbind]) -> Method:
    queue, exchange, key = random.choice(QUEUES), random.choice(EXCHANGES), random.choice(KEYS)
    return kind(queue, exchange, key, arguments=arguments(random))


def bound_exchange(random: Random, kind: type[ExchangeBind | ExchangeUnbind]) -> Method:
    one, other = random.choice(EXCHANGES), random.choice(EXCHANGES)
    return kind(one, other, random.choice(KEYS), flag(random), arguments(random))


MAKERS: tuple[Callable[[Random], Method], ...] = (
    declared_queue,
    declared_queue,
    declared_exchange,
    lambda random: bound(random, QueueBind),
    lambda random: bound(random, QueueUnbind),
    lambda random: bound_exchange(random, ExchangeBind),
    lambda random: bound_exchange(random, ExchangeUnbind),
    lambda random: QueueDelete(random.choice(QUEUES), flag(random), flag(random), flag(random)),
    lambda random: QueuePurge(random.choice(QUEUES), flag(random)),
    lambda random: ExchangeDelete(random.choice(EXCHANGES), flag(random), flag(random)),
    lambda random: BasicConsume(
        random.choice(QUEUES),
        random.choice(TAGS),
        flag(random),
        flag(random),
        flag(random),
        flag(random),
        arguments(random),
    ),
    lambda random: BasicCancel(random.choice(TAGS), flag(random)),
    lambda random: BasicGet(random.choice(QUEUES), flag(random)),
    lambda random: BasicAck(random.choice((0, 1, 2, 3, 9, 2**63)), flag(random)),
    lambda random: BasicNack(random.choice((0, 1, 2, 3, 9)), flag(random), flag(random)),
    lambda random: BasicReject(random.choice((1, 2, 3, 9)), flag(random)),
    lambda random: BasicQos(random.choice((0, 0, 0, 9)), random.choice((0, 1, 9)), flag(random)),
    lambda random: BasicRecover(flag(random)),
    lambda random: ConfirmSelect(flag(random)),
    lambda random: TxSelect(),
    lambda random: TxCommit(),
    lambda random: TxRollback(),
    lambda random: ChannelFlow(flag(random)),
)
# These end most conversations, so they are rare.
RUDE: tuple[Callable[[Random], Method], ...] = (
    lambda random: ChannelOpen(),
    lambda random: ChannelClose(200, "done", 0, 0),
    lambda random: ConnectionUpdateSecret(b"secret", "reason"),
    # Of servers of a cluster alone.
    lambda random: ClusterHello({"name": "a"}),
    lambda random: ClusterControl(random.choice((20, 25, 30, 255))),
    lambda random: ClusterStream(random.choice((1, 5, 255))),
)


def content(random: Random) -> bytes:
    """A whole publish."""
    size = random.choice((0, 1, 40, 40, 3000))
    properties = BasicProperties(
        content_type=random.choice((None, "text/plain")),
        headers=random.choice((*HEADERS, arguments(random))),
        delivery_mode=random.choice((None, 1, 2)),
        priority=random.choice((None, 0, 9, 255)),
        expiration=random.choice((None, None, "0", "100", "x")),
        reply_to=random.choice((None, None, "amq.rabbitmq.reply-to")),
        user_id=random.choice((None, None, None, "guest", "eve")),
    )  # fmt: skip
    publish = BasicPublish(
        random.choice(EXCHANGES), random.choice(KEYS), flag(random), random.random() < 0.05
    )
    channel = 1
    header = encode_header(size, properties)
    return (
        method_frame(channel, publish)
        + raw_frame(2, channel, header)
        + (raw_frame(3, channel, b"b" * size) if size else b"")
    )


def raw_frame(kind: int, channel: int, payload: bytes) -> bytes:
    return (
        bytes((kind,))
        + channel.to_bytes(2, "big")
        + len(payload).to_bytes(4, "big")
        + payload
        + b"\xce"
    )


class Conversations091:
    """Makes conversations from a pool of frames that is renewed from time to time."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._handshake = handshake()
        self._pool: list[bytes] = []
        self.renew()

    def renew(self) -> None:
        random = self._random
        self._pool = [content(random) for _ in range(150)] + [HEARTBEAT]
        for _ in range(300):
            is_rude = random.random() < RUDE_SHARE
            channel = random.choice((1, 2, 0, 70)) if is_rude else 1
            makers = RUDE if is_rude else MAKERS
            self._pool.append(method_frame(channel, random.choice(makers)(random)))

    def next(self) -> tuple[bytes, bool]:
        """What a client says, and whether its handshake is whole."""
        random = self._random
        frames = random.choices(self._pool, k=random.randrange(1, METHODS_MAX))
        if random.random() < 0.4:
            frames.append(method_frame(0, ConnectionClose(200, "bye", 0, 0)))
        said = self._handshake + b"".join(frames)
        if random.random() < 0.5:
            return said, True
        recorded = Recorded(None, said, len(self._handshake))
        damaged = mutate(random, recorded, random.choice(self._pool))
        return damaged, damaged.startswith(self._handshake)


def judge(reply: bytes, is_cut: bool, verdict: Verdict) -> None:
    """Whether a server's words are whole frames, and their codes known and not our own fault."""
    while reply:
        if reply.startswith(b"AMQP"):
            if len(reply) != len(PROTOCOL_HEADER):
                raise WrongAnswer("octets after a protocol header")
            verdict.count("protocol header")
            return
        size = int.from_bytes(reply[3:7], "big") + 8
        if len(reply) < max(size, 8):
            if is_cut:
                return
            raise WrongAnswer(f"a frame of {size} octets ends after {len(reply)}")
        if reply[size - 1] != 0xCE:
            raise WrongAnswer("no frame-end octet")
        if reply[0] == METHOD_FRAME:
            judge_method(decode_method(reply[7 : size - 1]), verdict)
        reply = reply[size:]


def judge_method(method: Method, verdict: Verdict) -> None:
    if isinstance(method, (ChannelClose, ConnectionClose)):
        name = "channel" if isinstance(method, ChannelClose) else "connection"
        verdict.count(f"{name}.close {method.reply_code}")
        if method.reply_code == INTERNAL_ERROR or method.reply_code not in REPLY_NAMES:
            raise WrongAnswer(f"{name}.close {method.reply_code} {method.reply_text}")
