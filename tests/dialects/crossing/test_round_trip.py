"""For any message: across and back is the same."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from penstock.dialects.crossing.labels import HEAD_HEADER
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.field_table import decode_table
from penstock.wire.amqp10.performatives_generated import (
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
)
from penstock.wire.amqp10.values import (
    Composite,
    Symbol,
    ULong,
)
from tests.dialects.crossing.messages import (
    UUID,
    UUID_TEXT,
    bare_message,
    meaning,
    octets_message,
    said,
    to_bare,
    to_basic,
)
from tests.wire.amqp10.strategies import ASCII, SCALAR, VALUE, unsigned

TEXT = st.text(max_size=60) | st.sampled_from([UUID_TEXT, "/queues/q", "x" * 255])
SHORT_TEXT = TEXT.filter(lambda text: len(text.encode()) <= 255)
NAME = (
    st.binary(max_size=20)
    | st.sampled_from([b"x-a", b"x-amqp-1.0-subject", b"x-amqp-1.0-head", b"x-basic-type", b"x-cc"])
    | st.sampled_from([b"x-opt-basic-properties", b"x-basic-header-a", b"x-opt-deaths"])
)


def sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets


def fixed(letter: bytes, width: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=width, max_size=width).map(lambda octets: letter + octets)


def fields(value: st.SearchStrategy[bytes], name: bytes) -> st.SearchStrategy[bytes]:
    names = NAME if name == b"" else st.just(name)
    return st.tuples(names, value).map(lambda pair: bytes((len(pair[0]),)) + pair[0] + pair[1])


FIELD = st.recursive(
    st.one_of(
        *(fixed(letter.encode(), 1) for letter in "tbB"),
        *(fixed(letter.encode(), 2) for letter in "su"),
        *(fixed(letter.encode(), 4) for letter in "Iif"),
        *(fixed(letter.encode(), 8) for letter in "lLdT"),
        fixed(b"D", 5),
        st.just(b"V"),
        (st.binary(max_size=300) | TEXT.map(str.encode)).map(lambda octets: b"S" + sized(octets)),
        st.binary(max_size=30).map(lambda octets: b"x" + sized(octets)),
    ),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: b"A" + sized(b"".join(items)))
        | st.lists(fields(inner, b""), max_size=4).map(lambda all_: b"F" + sized(b"".join(all_)))
    ),
    max_leaves=8,
)
TABLE = st.lists(fields(FIELD, b""), max_size=6).map(lambda found: sized(b"".join(found)))
BASIC = st.builds(
    BasicProperties,
    content_type=st.none() | SHORT_TEXT,
    content_encoding=st.none() | SHORT_TEXT,
    delivery_mode=st.none() | st.integers(0, 2),
    priority=st.none() | unsigned(8),
    correlation_id=st.none() | SHORT_TEXT,
    reply_to=st.none() | SHORT_TEXT,
    expiration=st.none() | st.integers(0, 10**12).map(str) | st.just("+07"),
    message_id=st.none() | SHORT_TEXT,
    timestamp=st.none() | unsigned(64) | unsigned(32),
    type_=st.none() | SHORT_TEXT | st.just("amqp-1.0"),
    user_id=st.none() | SHORT_TEXT,
    app_id=st.none() | SHORT_TEXT,
    cluster_id=st.none() | SHORT_TEXT,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    BASIC,
    st.none() | TABLE,
    st.binary(max_size=20) | VALUE.map(lambda value: AmqpValue(value).encode()),
)
@example(BasicProperties(type_="amqp-1.0"), None, AmqpValue(1).encode())
def test_from_amqp091_and_back_is_the_same(
    basic: BasicProperties, table: bytes | None, body: bytes
) -> None:
    if table is not None:
        basic.headers = decode_table(table, 0)
    header = encode_header(len(body), basic)
    if table is not None:
        # Every letter and every repeated name as it was made up, not as our encoder has it.
        at = 14
        for text in (basic.content_type, basic.content_encoding):
            at += 0 if text is None else 1 + header[at]
        size = 4 + int.from_bytes(header[at : at + 4], "big")
        header = header[:at] + table + header[at + size :]
    original = octets_message(header, body)
    assert said(to_basic(to_bare(original))) == said(original)


PROPERTIES = st.builds(
    Properties,
    message_id=st.none() | TEXT | st.binary(max_size=20) | unsigned(64).map(ULong) | st.just(UUID),
    user_id=st.none() | st.binary(max_size=300),
    to=st.none() | TEXT | VALUE,
    subject=st.none() | TEXT,
    reply_to=st.none() | TEXT | SCALAR,
    correlation_id=st.none() | TEXT | st.binary(max_size=300),
    content_type=st.none() | ASCII,
    content_encoding=st.none() | ASCII,
    absolute_expiry_time=st.none() | st.integers(-(2**63), 2**63 - 1),
    creation_time=st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 10**13),
    group_id=st.none() | st.text(max_size=300),
    group_sequence=st.none() | unsigned(32),
    reply_to_group_id=st.none() | TEXT,
)
ANNOTATIONS = st.dictionaries(
    (ASCII | ASCII.map(lambda text: "x-" + text)).map(Symbol)
    | unsigned(64).map(ULong)
    | NAME.filter(bytes.isascii).map(lambda name: Symbol(name.decode())),
    VALUE,
    max_size=4,
).map(lambda pairs: dict[object, object](pairs.items()))
APPLICATION = st.dictionaries(
    st.text(max_size=20) | st.sampled_from(["CC", "BCC", "x-a", "n" * 300, HEAD_HEADER]),
    VALUE,
    max_size=4,
).map(lambda pairs: dict[object, object](pairs.items()))
BODY = st.one_of(
    st.lists(st.binary(max_size=20).map(Data), min_size=1, max_size=1),
    st.lists(st.builds(AmqpSequence, st.lists(VALUE, max_size=3)), min_size=1, max_size=2),
    st.lists(st.builds(AmqpValue, VALUE), min_size=1, max_size=1),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.none() | st.builds(Header, st.booleans(), unsigned(8), st.none() | unsigned(32)),
    st.none() | ANNOTATIONS.map(MessageAnnotations),
    st.none() | PROPERTIES,
    st.none() | APPLICATION.map(ApplicationProperties),
    BODY,
    st.none() | ANNOTATIONS.map(Footer),
)
def test_from_amqp10_and_back_means_the_same(
    header: Header | None,
    annotations: MessageAnnotations | None,
    properties: Properties | None,
    application: ApplicationProperties | None,
    body: list[Composite],
    footer: Footer | None,
) -> None:
    sections = [header, annotations, properties, application, *body, footer]
    original = bare_message(*[section for section in sections if section is not None])
    assert meaning(to_bare(to_basic(original))) == meaning(original)
