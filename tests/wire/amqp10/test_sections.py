"""Sections of a message are found without decoding them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.octets import Malformed
from penstock.wire.amqp10.encoding import encode_value
from penstock.wire.amqp10.performatives_generated import (
    DATA,
    HEADER,
    PROPERTIES,
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    DeliveryAnnotations,
    Footer,
    Header,
    MessageAnnotations,
    Properties,
)
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.values import Composite, Described, Symbol

FRONT: list[Composite] = [
    Header(durable=True),
    DeliveryAnnotations({Symbol("a"): 1}),
    MessageAnnotations({Symbol("b"): 2}),
]
BARE: list[Composite] = [Properties("id", to="q"), ApplicationProperties({"k": "v"})]
BODIES: list[list[Composite]] = [
    [Data(b"x")],
    [Data(b"x"), Data(b"y")],
    [AmqpSequence([1]), AmqpSequence([2])],
    [AmqpValue({"a": 1})],
    [],
]
BACK: list[Composite] = [Footer({Symbol("f"): 3})]


@given(
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.sampled_from(BODIES),
)
def test_every_section_is_found(chosen: list[bool], body: list[Composite]) -> None:
    front = [part for part, is_there in zip(FRONT, chosen, strict=False) if is_there]
    bare = [part for part, is_there in zip(BARE, chosen[3:], strict=False) if is_there] + body
    back = BACK if chosen[5] else []
    sections = Sections(b"".join(part.encode() for part in [*front, *bare, *back]))
    assert sections.bare() == b"".join(part.encode() for part in bare)
    assert sections.body_kind == (body[0].identity() if body else 0)
    for part in [*front, *bare[: len(bare) - len(body)], *back]:
        assert sections.octets(part.identity()) == part.encode()
        assert sections.decode(part.identity()) == part
    if body:
        assert sections.octets(body[0].identity()) == b"".join(part.encode() for part in body)


def test_what_is_absent_is_nothing() -> None:
    sections = Sections(b"")
    assert sections.bare() == b""
    assert sections.decode(PROPERTIES) is None
    assert sections.octets(HEADER) == b""
    assert sections.body_kind == 0


def test_a_symbolic_descriptor_is_as_good() -> None:
    message = encode_value(Described(Symbol("amqp:data:binary"), b"x"))
    assert Sections(message).body_kind == DATA


@pytest.mark.parametrize(
    "parts",
    [
        [AmqpValue(1), AmqpValue(2)],
        [Data(b""), AmqpValue(2)],
        [Data(b""), AmqpSequence([])],
        [Properties(), Header()],
        [Header(), Header()],
        [Footer({}), Data(b"")],
    ],
)
def test_sections_out_of_order_are_refused(parts: list[Composite]) -> None:
    with pytest.raises(Malformed):
        Sections(b"".join(part.encode() for part in parts))


@pytest.mark.parametrize("octets", ["40", "00", "0053", "00531045", "005375a002", "00537540a1"])
def test_what_is_no_message_is_refused(octets: str) -> None:
    with pytest.raises(Malformed):
        Sections(bytes.fromhex(octets))


@given(st.binary(max_size=40))
def test_any_octets_are_a_message_or_malformed(octets: bytes) -> None:
    try:
        sections = Sections(octets)
    except Malformed:
        return
    assert sections.bare_start <= sections.bare_end
