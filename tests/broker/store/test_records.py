"""Records of the journal: what is written is read back, octet for octet."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Address, Message
from penstock.broker.store import records
from tests.broker.doubles import PlainProperties

POSITIONS = st.integers(1, 2**64 - 1)
NUMBERS = st.integers(0, 2**64 - 1)
# What a short string holds: octets, UTF-8 or not.
TEXTS = st.binary(max_size=255).map(lambda octets: octets.decode("utf-8", "surrogateescape"))


@given(
    exchange=TEXTS,
    key=TEXTS,
    header=st.binary(max_size=40),
    body=st.binary(max_size=200),
    origin=st.integers(-1, 2**32 - 2),
    pairs=st.lists(
        st.tuples(NUMBERS, POSITIONS, st.integers(0, 2**40)), min_size=1, max_size=5, unique=True
    ),
    before=st.binary(max_size=10),
)
def test_a_message_record_is_read_back_as_it_was_written(
    exchange: str,
    key: str,
    header: bytes,
    body: bytes,
    origin: int,
    pairs: list[tuple[int, int, int]],
    before: bytes,
) -> None:
    message = Message(Address(exchange, key, b""), PlainProperties(), body, origin)
    entries = []
    for _, position, expires_at in pairs:
        entry = QueueEntry(message, position)
        entry.expires_at = expires_at
        entries.append(entry)
    numbers = [number for number, _, _ in pairs]
    pieces = [before]
    size = records.append_message(
        pieces, message, header, message.address.octets(), numbers, entries, 1000
    )
    data = b"".join(pieces)
    assert size == len(data) - len(before) == records.size_at(data, len(before))
    record = records.MessageRecord(data, len(before))
    assert record.pair_count == len(pairs)
    assert record.exchange() == exchange
    assert record.routing_key() == key
    assert record.header() == header
    assert record.body() == body
    assert record.body_size == len(body)
    assert record.origin() == origin
    for index, (number, position, expires_at) in enumerate(pairs):
        assert record.queue_number(index) == number
        assert record.position(index) == position
        assert record.expires_at(index) == (expires_at + 1000 if expires_at else 0)


@given(
    count=st.integers(1, 6),
    data=st.data(),
    body=st.binary(max_size=50),
)
def test_a_record_for_some_of_its_queues_is_the_same_message(
    count: int, data: st.DataObject, body: bytes
) -> None:
    message = Message(Address("e", "k", b""), PlainProperties(), body, 3)
    entries = [QueueEntry(message, 10 + index) for index in range(count)]
    for entry in entries:
        entry.expires_at = entry.position * 2
    pieces: list[bytes] = []
    numbers = list(range(100, 100 + count))
    records.append_message(pieces, message, b"head", message.address.octets(), numbers, entries, 0)
    whole = records.MessageRecord(b"".join(pieces), 0)
    kept = data.draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True))
    octets = whole.with_pairs(kept)
    assert records.size_at(octets, 0) == len(octets)
    part = records.MessageRecord(octets, 0)
    found = [
        (part.queue_number(index), part.position(index), part.expires_at(index))
        for index in range(part.pair_count)
    ]
    assert found == [(100 + index, 10 + index, 20 + 2 * index) for index in kept]
    assert (part.body(), part.header(), part.origin()) == (body, b"head", 3)
    assert (part.exchange(), part.routing_key()) == ("e", "k")
    for place, index in enumerate(kept):
        assert part.index_of(100 + index, 10 + index) == place


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=40, unique=True),
    NUMBERS,
    st.integers(0, 2**64 - 1),
)
def test_what_left_a_queue_is_written_as_ranges(
    positions: list[int], number: int, octets: int
) -> None:
    pieces: list[bytes] = []
    size = records.append_dequeued(pieces, number, octets, records.encode_ranges(positions))
    data = b"".join(pieces)
    assert size == len(data) == records.size_at(data, 0)
    assert data[0] == records.DEQUEUED
    record = records.DequeuedRecord(data, 0)
    assert (record.queue_number, record.body_bytes) == (number, octets)
    found: list[int] = []
    for first, count in record.ranges:
        found.extend(range(first, first + count))
    assert found == positions


def test_a_thousand_acknowledgements_in_order_are_one_range() -> None:
    pieces: list[bytes] = []
    records.append_dequeued(pieces, 1, 0, records.encode_ranges(list(range(1, 1001))))
    assert records.DequeuedRecord(b"".join(pieces), 0).ranges == [(1, 1000)]


EPOCHS = st.integers(0, 2**22 - 1)
KS = st.integers(0, 2**64 - 1)


@given(EPOCHS, KS, st.integers(0, 2**32 - 1))
def test_records_of_the_stream_of_operations_are_read_back(epoch: int, k: int, octets: int) -> None:
    data = records.operation_record(epoch, k, octets)
    assert len(data) == records.size_at(data, 0) == records.OPERATION_SIZE
    assert data[0] == records.OPERATION
    operation = records.OperationRecord(data, 0)
    assert (operation.epoch, operation.k, operation.octets) == (epoch, k, octets)
    data = records.position_record(epoch, k)
    assert len(data) == records.size_at(data, 0)
    assert data[0] == records.POSITION
    assert records.position_at(data, 0) == (epoch, k)
    data = records.root_record(epoch)
    assert len(data) == records.size_at(data, 0)
    assert data[0] == records.ROOT
    assert records.root_epoch(data, 0) == epoch
    assert records.size_at(records.STAGED_RECORD, 0) == len(records.STAGED_RECORD)
    assert records.STAGED_RECORD[0] == records.STAGED


RANGES = st.lists(st.tuples(st.integers(1, 2**62), st.integers(1, 2**32 - 1)), max_size=4)


@given(EPOCHS, KS, st.lists(st.tuples(NUMBERS, RANGES), max_size=4), st.binary(max_size=5))
def test_the_end_of_a_sync_is_read_back_with_its_target(
    epoch: int, k: int, target: list[tuple[int, list[tuple[int, int]]]], before: bytes
) -> None:
    pieces = [before]
    size = records.append_sync_done(pieces, epoch, k, target)
    data = b"".join(pieces)
    assert size == len(data) - len(before) == records.size_at(data, len(before))
    record = records.SyncDoneRecord(data, len(before))
    assert (record.epoch, record.k, record.target) == (epoch, k, target)


def test_a_range_that_is_longer_than_its_field_becomes_several() -> None:
    pieces: list[bytes] = []
    records.append_sync_done(pieces, 1, 2, [(7, [(5, 2**32 + 3)])])
    most = records.RANGE_COUNT_MAX
    found = records.SyncDoneRecord(b"".join(pieces), 0).target
    assert found == [(7, [(5, most), (5 + most, 2**32 + 3 - most)])]
