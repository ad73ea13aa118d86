"""A row of an AMQP 1.0 message says what a consumer of AMQP 0-9-1 sees of it, whatever it is."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from penstock.dialects.amqp091.properties import MessageProperties
from penstock.spark.bodies import decode_value
from penstock.wire.amqp10.performatives_generated import (
    AmqpValue,
    ApplicationProperties,
    Data,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
)
from penstock.wire.amqp10.values import Composite, Symbol
from tests.dialects.crossing.messages import bare_message, head_of, to_basic
from tests.dialects.crossing.test_round_trip import (
    ANNOTATIONS,
    APPLICATION,
    BODY,
    PROPERTIES,
)
from tests.spark.rows_written import Row
from tests.spark.test_segments import decoded
from tests.wire.amqp10.strategies import unsigned

COLUMNS = ("headers", "header_types", "properties", "id", "body")


def both_rows(*sections: Composite) -> tuple[dict[str, object], dict[str, object]]:
    """As the message is stored, and as it is after the translation for a consumer."""
    stored = bare_message(*sections)
    seen = to_basic(stored)
    assert isinstance(seen.properties, MessageProperties)
    rows = [
        Row(b"", b"k", head_of(stored).head, stored.body),
        Row(b"", b"k", seen.properties.header, seen.body),
    ]
    first, second = decoded(rows, *COLUMNS)
    return first, second


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.none() | st.builds(Header, st.booleans(), unsigned(8), st.none() | unsigned(32)),
    st.none() | ANNOTATIONS.map(MessageAnnotations),
    st.none() | PROPERTIES,
    st.none() | APPLICATION.map(ApplicationProperties),
    BODY,
    st.none() | ANNOTATIONS.map(Footer),
)
@example(None, None, Properties(subject="s", to="t"), None, [AmqpValue("text")], None)
def test_every_column_says_what_a_consumer_of_amqp091_sees(
    header: Header | None,
    annotations: MessageAnnotations | None,
    properties: Properties | None,
    application: ApplicationProperties | None,
    body: list[Composite],
    footer: Footer | None,
) -> None:
    sections = [header, annotations, properties, application, *body, footer]
    first, second = both_rows(*[section for section in sections if section is not None])
    assert first == second


def test_subject_type_and_priority_are_there() -> None:
    row, _ = both_rows(
        Header(priority=7),
        MessageAnnotations({Symbol("x-basic-type"): "order"}),
        Properties(subject="prices", message_id="m"),
        Data(b"x"),
    )
    properties = row["properties"]
    assert isinstance(properties, dict)
    assert (properties["type"], properties["priority"], row["id"]) == ("order", 7, "m")
    assert row["headers"] == [("x-amqp-1.0-subject", "prices")]


def test_a_value_stays_encoded_and_says_so_and_its_text_can_be_had() -> None:
    row, _ = both_rows(AmqpValue("téxt"))
    properties, body = row["properties"], row["body"]
    assert isinstance(properties, dict)
    assert isinstance(body, bytes)
    assert properties["type"] == "amqp-1.0"
    assert decode_value(body) == "téxt".encode()
    assert decode_value(AmqpValue(b"octets").encode()) == b"octets"
    for other in (AmqpValue(5).encode(), Data(b"data").encode(), b"none of these"):
        assert decode_value(other) == other
    assert decode_value(None) is None
