"""Mixed traffic: many keys, sizes and properties, no two messages alike.

A group is a publisher with a topic exchange (100 bindings), a direct exchange and the default one
before twenty queues, and one connection that consumes them all. Everything is drawn from a fixed
seed, so every broker and every run gets the same. The bench computes routes itself and knows how
many deliveries each message must cause.
"""

import dataclasses
import random
import struct
from collections.abc import Iterable

from bench import frames
from bench.plan import Binding, LoadPlan, PublisherLane, acknowledged

SEED = 902

# Distinct messages of one group: ten megabytes, more than a processor's caches hold of them. They
# go round with another message-id each time.
POOL_MESSAGES = 8_192

BODY_BYTES_MIN = 50
BODY_BYTES_MAX = 2_000

TOPIC_QUEUES = 10
TOPIC_BINDINGS = 100
DIRECT_QUEUES = 5
DEFAULT_QUEUES = 5

# Of all publishes: the rest goes to the default exchange.
TOPIC_SHARE = 0.5
DIRECT_SHARE = 0.3
HEADERS_SHARE = 0.3

REGIONS = ("eu", "us", "asia", "africa", "north", "south", "mars", "moon")
KINDS = ("temperature", "pressure", "order", "invoice", "click", "login", "alarm", "audit")
DEVICES = 200

# Of the message-id, "INDEX-TURN" in hexadecimal, the second half changes, and with it the time
# stamp, which follows at once.
TURN_DIGITS = 8
TIMESTAMP_BYTES = 8

NOISE_BYTES = 65_536


@dataclasses.dataclass(frozen=True, slots=True)
class MixedMessage:
    """One of the pool: its frames, where its turn is to be written, where it must arrive."""

    publish: bytes
    turn_offset: int
    body: bytes
    queues: frozenset[str]


def mixed(host: str, port: int, prefix: str, pairs: int, *, durable: bool = False) -> LoadPlan:
    groups = [f"{prefix}.{group:04d}" for group in range(pairs)]
    plan = LoadPlan(
        host=host,
        port=port,
        publishers=tuple(PublisherLane(group, (), i, 1) for i, group in enumerate(groups)),
        consumers=tuple(group_queues(group) for group in groups),
        size=BODY_BYTES_MAX,
        bindings=tuple(binding for group in groups for binding in group_bindings(group)),
    )
    return acknowledged(plan, durable=durable)


def group_queues(group: str) -> tuple[str, ...]:
    counts = (("topic", TOPIC_QUEUES), ("direct", DIRECT_QUEUES), ("default", DEFAULT_QUEUES))
    return tuple(f"{group}.{kind}.{index}" for kind, count in counts for index in range(count))


def group_bindings(group: str) -> list[Binding]:
    dice = random.Random(SEED)
    bindings = [
        Binding(f"{group}.direct", "direct", f"{group}.direct.{index % DIRECT_QUEUES}", kind)
        for index, kind in enumerate(KINDS)
    ]
    # A few that match much and many that match little: every message reaches a queue, most reach
    # two or three.
    wide = [f"{region}.#" for region in REGIONS] + [f"*.{kind}.#" for kind in KINDS]
    patterns = dict.fromkeys(wide)
    while len(patterns) < TOPIC_BINDINGS:
        patterns[narrow_pattern(dice)] = None
    return bindings + [
        Binding(f"{group}.topic", "topic", f"{group}.topic.{index % TOPIC_QUEUES}", key)
        for index, key in enumerate(patterns)
    ]


def narrow_pattern(dice: random.Random) -> str:
    region, kind, device = dice.choice(REGIONS), dice.choice(KINDS), dice.randrange(DEVICES)
    shapes = (f"{region}.{kind}.*", f"{region}.*.{device}", f"*.{kind}.{device}", f"#.{device}")
    return dice.choice(shapes)


def matches(pattern_words: list[str], words: list[str]) -> bool:
    """AMQP's topic match: `*` is one word, `#` any number of them."""
    if not pattern_words:
        return not words
    if pattern_words[0] == "#":
        return any(matches(pattern_words[1:], words[at:]) for at in range(len(words) + 1))
    return (
        bool(words)
        and pattern_words[0] in ("*", words[0])
        and matches(pattern_words[1:], words[1:])
    )


def routed(bindings: Iterable[Binding], exchange: str, key: str) -> frozenset[str]:
    words = key.split(".")
    return frozenset(
        binding.queue
        for binding in bindings
        if binding.exchange == exchange
        and (
            matches(binding.key.split("."), words)
            if binding.kind == "topic"
            else binding.key == key
        )
    )


def build_pool(plan: LoadPlan, index: int) -> list[MixedMessage]:
    """The messages of the group with this index, the same in the publisher and in the consumer."""
    group = plan.publishers[index].exchange
    bindings = [binding for binding in plan.bindings if binding.queue in plan.consumers[index]]
    dice = random.Random(SEED + index)
    noise = dice.randbytes(NOISE_BYTES)
    pool = []
    for number in range(POOL_MESSAGES):
        exchange, key = target(group, dice)
        queues = routed(bindings, exchange, key) if exchange else frozenset({key})
        size = dice.randint(BODY_BYTES_MIN, BODY_BYTES_MAX)
        start = dice.randrange(NOISE_BYTES - size)
        body = noise[start : start + size]
        method = frames.publish_method(exchange, key)
        header, turn_offset = content_header(number, size, headers(dice), durable=plan.durable)
        whole = method + header + frames.frame(frames.FRAME_BODY, 1, body)
        pool.append(MixedMessage(whole, len(method) + turn_offset, body, queues))
    return pool


def target(group: str, dice: random.Random) -> tuple[str, str]:
    draw = dice.random()
    kind = dice.choice(KINDS)
    if draw < TOPIC_SHARE:
        return f"{group}.topic", f"{dice.choice(REGIONS)}.{kind}.{dice.randrange(DEVICES)}"
    if draw < TOPIC_SHARE + DIRECT_SHARE:
        return f"{group}.direct", kind
    return "", f"{group}.default.{dice.randrange(DEFAULT_QUEUES)}"


def headers(dice: random.Random) -> dict[str, bool | int | str]:
    if dice.random() >= HEADERS_SHARE:
        return {}
    drawn: dict[str, bool | int | str] = {
        "source": f"sensor-{dice.randrange(DEVICES)}",
        "attempt": dice.randrange(5),
        "valid": dice.random() < 0.9,
        "trace": f"{dice.getrandbits(64):016x}",
    }
    return dict(list(drawn.items())[: dice.randint(1, len(drawn))])


def content_header(
    number: int, size: int, table: dict[str, bool | int | str], *, durable: bool
) -> tuple[bytes, int]:
    """The frame, and where in it the turn and the time stamp are to be written."""
    flags = frames.PROPERTY_CONTENT_TYPE | frames.PROPERTY_DELIVERY_MODE
    flags |= frames.PROPERTY_MESSAGE_ID | frames.PROPERTY_TIMESTAMP
    flags |= frames.PROPERTY_HEADERS if table else 0
    payload = struct.pack(">HHQH", 60, 0, size, flags) + frames.short_string("application/json")
    payload += frames.field_table(table) if table else b""
    payload += b"\x02" if durable else b"\x01"
    payload += frames.short_string(f"{number:08x}-{0:0{TURN_DIGITS}x}")
    payload += bytes(TIMESTAMP_BYTES)
    frame = frames.frame(frames.FRAME_HEADER, 1, payload)
    return frame, len(frame) - 1 - TIMESTAMP_BYTES - TURN_DIGITS
