import pytest

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges.kinds import make_exchange
from penstock.broker.message import Address, Message
from penstock.broker.queues.reading import StartKind
from penstock.broker.selectors.refusal import SelectorError
from penstock.dialects.amqp10.nodes.filters import (
    Place,
    Selection,
    described_no_local,
    described_selector,
    place_of,
    read_selection,
)
from penstock.wire.amqp10.values import Array, Described, Symbol, Timestamp, UInt, ULong
from tests.broker.doubles import PlainProperties

OWN, OTHER = 7, 8
NODE = "queue 'q' in vhost '/'"
RED = "colour = 'red'"


def read(place: Place = Place.QUEUE, is_shared: bool = False, /, **filters: object) -> Selection:
    return read_selection(filters, place, is_shared, NODE, OWN)


def described(descriptor: object, value: object) -> Described:
    return Described(Symbol(descriptor) if isinstance(descriptor, str) else descriptor, value)


def message(key: str = "key", origin: int = OTHER, /, **headers: object) -> Message:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Message(Address("ex", key, b""), PlainProperties(named), b"", origin)


def wants(selection: Selection, origin: int = OTHER, **headers: object) -> bool:
    return selection.wants(QueueEntry(message("key", origin, **headers), 1))


@pytest.mark.parametrize(
    "descriptor",
    [
        "apache.org:selector-filter:string",
        ULong(0x0000468C00000004),
        "jms-selector",
        "amqp:sql-filter",
        ULong(0x120),
    ],
)
def test_a_selector_is_known_by_symbol_and_number(descriptor: object) -> None:
    selection = read(chosen=described(descriptor, RED))
    assert selection.is_selective
    assert wants(selection, colour="red")
    assert not wants(selection, colour="blue")
    assert not wants(selection)
    assert selection.in_force == {"chosen": described(descriptor, RED)}


def test_a_value_without_descriptor_is_known_by_its_name() -> None:
    selection = read_selection({"jms-selector": RED}, Place.QUEUE, False, NODE, OWN)
    assert not wants(selection, colour="blue")
    assert read_selection({"jms-selector": None}, Place.QUEUE, False, NODE, OWN).in_force == {}


def test_all_of_several_selectors_must_match() -> None:
    selection = read(one=described_selector(RED), two=described_selector("size > 1"))
    assert wants(selection, colour="red", size=2)
    assert not wants(selection, colour="red", size=1)
    assert not wants(selection, colour="blue", size=2)
    assert selection.selector_text() == f"({RED}) AND (size > 1)"
    assert not wants(read(only=described_selector(selection.selector_text())), colour="red")


def test_a_selector_may_ask_how_often_a_message_was_delivered() -> None:
    entry = QueueEntry(message(), 1)
    selection = read(s=described_selector("JMSRedelivered AND amqp.delivery_count = 2"))
    assert not selection.wants(entry)
    entry.delivery_count = 2
    entry.is_redelivered = True
    assert selection.wants(entry)


def test_a_wrong_selector_is_refused_with_the_place_where_it_is_wrong() -> None:
    with pytest.raises(SelectorError) as refusal:
        read(s=described_selector("colour = = 1"))
    assert refusal.value.position == 10
    assert "at character 10" in refusal.value.text


def test_no_local_is_about_the_connection() -> None:
    selection = read(nl=described_no_local())
    assert selection.no_local and selection.is_selective
    assert wants(selection, OTHER)
    assert not wants(selection, OWN)
    by_number = read(nl=Described(ULong(0x0000468C00000003), []))
    assert not wants(by_number, OWN)


def test_those_who_share_a_subscription_cannot_have_no_local() -> None:
    selection = read(Place.TOPIC, True, nl=described_no_local(), s=described_selector(RED))
    assert not selection.no_local
    assert list(selection.in_force) == ["s"]


@pytest.mark.parametrize("place", list(Place))
def test_an_unknown_filter_is_not_in_force(place: Place) -> None:
    selection = read(
        place,
        strange=described("acme:strange", 1),
        number=described(ULong(99), 1),
        odd=Described([1], 1),
        s=described_selector(RED),
    )
    assert list(selection.in_force) == ["s"]


BINDINGS = {
    Place.DIRECT: ("apache.org:legacy-amqp-direct-binding:string", 0x0000468C00000000),
    Place.TOPIC: ("apache.org:legacy-amqp-topic-binding:string", 0x0000468C00000001),
}


@pytest.mark.parametrize("place", list(Place))
def test_a_legacy_binding_counts_at_its_own_kind_of_exchange(place: Place) -> None:
    for kind, (symbol, number) in BINDINGS.items():
        for descriptor in (symbol, ULong(number)):
            selection = read(place, b=described(descriptor, "a.b"))
            if place is kind:
                assert selection.binding_key == "a.b"
                assert list(selection.in_force) == ["b"]
            else:
                assert selection.binding_key is None
                assert selection.in_force == {}
    headers = described(
        "apache.org:legacy-amqp-headers-binding:map",
        {Symbol("x-match"): Symbol("any"), "size": UInt(3), "there": None},
    )
    selection = read(place, h=headers)
    if place is Place.HEADERS:
        arguments = selection.binding_arguments
        assert arguments == {"x-match": "any", "size": 3, "there": None}
        assert {type(value) for value in arguments.values()} == {str, int, type(None)}
    else:
        assert selection.binding_arguments is None


def test_an_exchange_is_a_place_for_filters_by_how_it_routes() -> None:
    arguments: dict[str, object] = {"x-delayed-type": "topic"}
    kinds = ("direct", "topic", "headers", "fanout")
    made = [make_exchange("e", kind, False, False, False, {}) for kind in kinds]
    made.append(make_exchange("e", "x-delayed-message", False, False, False, arguments))
    assert [place_of(exchange) for exchange in made] == [
        Place.DIRECT,
        Place.TOPIC,
        Place.HEADERS,
        Place.OTHER_EXCHANGE,
        Place.TOPIC,
    ]


@pytest.mark.parametrize(
    ("value", "kind", "number"),
    [
        ("first", StartKind.FIRST, 0),
        ("last", StartKind.LAST, 0),
        ("next", StartKind.NEXT, 0),
        (ULong(42), StartKind.OFFSET, 42),
        (43, StartKind.OFFSET, 43),
        (Timestamp(1_500_000_000_123), StartKind.TIMESTAMP, 1_500_000_000_123),
        ("2h", StartKind.INTERVAL, 2 * 3600 * 1000),
    ],
)
def test_a_stream_is_read_from_an_offset(value: object, kind: StartKind, number: int) -> None:
    selection = read(Place.STREAM, o=described("rabbitmq:stream-offset-spec", value))
    assert (selection.start.kind, selection.start.value) == (kind, number)
    assert list(selection.in_force) == ["o"]
    assert not selection.is_selective and selection.stream_filter is None


def test_a_stream_is_read_from_a_named_cursor_or_from_its_end() -> None:
    assert read(Place.STREAM).start.kind is StartKind.NEXT
    cursor = described("penstock:stream-cursor", "billing")
    selection = read(Place.STREAM, c=cursor)
    assert (selection.cursor, selection.start.kind) == ("billing", StartKind.CURSOR)
    # Whichever comes first in the map.
    both = read(Place.STREAM, o=described("rabbitmq:stream-offset-spec", "cursor"), c=cursor)
    assert both.start.kind is StartKind.CURSOR


def test_a_stream_is_filtered_by_value_as_in_rabbitmq() -> None:
    values = described("rabbitmq:stream-filter", Array(0xA1, ["red", "green"]))
    only = read(Place.STREAM, v=values).stream_filter
    unfiltered = described("rabbitmq:stream-match-unfiltered", True)
    also = read(Place.STREAM, v=values, u=unfiltered).stream_filter
    single = read(Place.STREAM, v=described("rabbitmq:stream-filter", "red")).stream_filter
    assert only is not None and also is not None and single is not None
    for mark, expected in {"red": True, "green": True, "blue": False, "": False}.items():
        marked = message(x_stream_filter_value=mark)
        assert only.wants(marked) is also.wants(marked) is expected
        assert single.wants(marked) is (mark == "red")
    assert not only.wants(message())
    assert also.wants(message())
    assert not also.wants(message(x_stream_filter_value=["red"]))


def test_a_stream_is_filtered_by_key_headers_and_selector_together() -> None:
    selection = read(
        Place.STREAM,
        k=described("penstock:stream-filter-routing-key", ["a.*", "c"]),
        h=described("penstock:stream-filter-headers", {"colour": Symbol("red")}),
        s=described_selector("size > 1"),
    )
    wanted = selection.stream_filter
    assert wanted is not None
    assert wanted.wants(message("a.b", colour="red", size=2))
    assert wanted.wants(message("c", colour="red", size=2))
    assert not wanted.wants(message("b", colour="red", size=2))
    assert not wanted.wants(message("c", colour="blue", size=2))
    assert not wanted.wants(message("c", colour="red", size=1))


def test_what_streams_know_is_not_in_force_elsewhere_and_no_local_not_on_streams() -> None:
    assert read(o=described("rabbitmq:stream-offset-spec", "nonsense")).in_force == {}
    assert read(Place.STREAM, nl=described_no_local()).in_force == {}


@pytest.mark.parametrize(
    ("place", "descriptor", "value", "text"),
    [
        (Place.QUEUE, "jms-selector", 5, "invalid filter 'f': expected a string, got int"),
        (Place.QUEUE, "jms-selector", None, "invalid filter 'f': expected a string, got null"),
        (
            Place.TOPIC,
            "apache.org:legacy-amqp-topic-binding:string",
            "k" * 256,
            "the routing key is longer than 255 bytes",
        ),
        (
            Place.HEADERS,
            "apache.org:legacy-amqp-headers-binding:map",
            [],
            "invalid filter 'f': expected a map, got list",
        ),
        (
            Place.HEADERS,
            "apache.org:legacy-amqp-headers-binding:map",
            {1: 1},
            "invalid filter 'f': expected strings as keys, got int",
        ),
        (
            Place.STREAM,
            "rabbitmq:stream-offset-spec",
            "yesterday",
            (
                f"invalid arg 'x-stream-offset' for {NODE}: "
                '{invalid_stream_offset_arg,{longstr,<<"yesterday">>}}'
            ),
        ),
        (
            Place.STREAM,
            "penstock:stream-cursor",
            "",
            "invalid filter 'f': the name of a cursor must have 1 to 255 bytes",
        ),
        (
            Place.STREAM,
            "rabbitmq:stream-filter",
            [1],
            "invalid filter 'f': expected strings, got int",
        ),
        (
            Place.STREAM,
            "rabbitmq:stream-filter",
            1.5,
            "invalid filter 'f': expected strings, got float",
        ),
    ],
)
def test_a_known_filter_with_a_wrong_value_refuses_the_link(
    place: Place, descriptor: str, value: object, text: str
) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        read(place, f=described(descriptor, value))
    assert refusal.value.text == text


def test_whether_unmarked_messages_are_wanted_is_a_boolean() -> None:
    with pytest.raises(PreconditionFailed, match="expected a boolean, got str"):
        read(
            Place.STREAM,
            v=described("rabbitmq:stream-filter", "red"),
            u=described("rabbitmq:stream-match-unfiltered", "yes"),
        )
