"""Records that are written in a run are those that are written one by one."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Address, Message
from penstock.broker.store import records
from penstock.broker.store.repeats import RepeatWriter
from tests.broker.doubles import PlainProperties

ADDRESSES = [Address("", "q", b""), Address("orders", "eu", b""), Address("orders", "us", b"")]
# Two of them are other objects with the same octets, and two have the same size.
PROPERTIES = [
    PlainProperties(),
    PlainProperties(),
    PlainProperties({"a": 1}),
    PlainProperties({"a": 2}),
]
WALL_OFFSET = 1000

# Few of each, so that most runs have records that are alike and some that are not.
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(ADDRESSES),
        st.sampled_from(PROPERTIES),
        st.sampled_from([b"", b"one", b"two", b"longer"]),
        st.sampled_from([-1, 0, 7]),
        st.sampled_from([1, 2]),
        st.sampled_from([0, 0, 2**40]),
        # Those of a run mostly differ in the last octet alone.
        st.one_of(st.integers(250, 260), st.integers(1, 2**64 - 1)),
    ),
    max_size=12,
)


@given(ENTRIES)
def test_a_run_of_records_is_each_of_them(
    contents: list[tuple[Address, PlainProperties, bytes, int, int, int, int]],
) -> None:
    run = RepeatWriter()
    in_a_run: list[bytes] = []
    one_by_one: list[bytes] = []
    for address, properties, body, origin, number, expires_at, position in contents:
        message = Message(address, properties, body, origin)
        entry = QueueEntry(message, position)
        entry.expires_at = expires_at
        size = run.append(in_a_run, entry, number, WALL_OFFSET)
        assert size == records.append_message(
            one_by_one,
            message,
            message.properties.encoded(),
            address.octets(),
            [number],
            [entry],
            WALL_OFFSET,
        )
        assert b"".join(in_a_run) == b"".join(one_by_one)
