"""Operations taken apart: records that repeat one another are found without reading each."""

import pytest

from penstock.broker.store import records
from penstock.ha.replica_operation import BadOperation, piece_runs, read_operation
from tests.ha.replica_doubles import Member, audit, joined


def operation_of(*puts: tuple[str, list[bytes]]) -> bytes:
    """One tick of a root that publishes these bodies to these queues."""
    root = Member()
    root.promote(1)
    for name in {name for name, _ in puts}:
        root.declare(name)
    root.tick()
    for name, bodies in puts:
        root.put(name, *bodies)
    root.tick()
    assert root.stream is not None
    return root.stream.operations[-1]


def numbered(count: int, size: int = 20) -> list[bytes]:
    return [str(number).encode().rjust(size, b".") for number in range(count)]


def test_a_thousand_equal_messages_are_a_few_runs() -> None:
    operation = read_operation(operation_of(("q", numbered(1000))))
    # One ends where the last octet of the position does.
    assert [run.count for run in operation.runs] == [255, 256, 256, 233]


def test_runs_end_where_the_queue_or_the_size_changes() -> None:
    octets = operation_of(
        ("q", numbered(3)), ("r", numbered(2)), ("q", numbered(2)), ("q", numbered(4, 30))
    )
    assert [run.count for run in read_operation(octets).runs] == [3, 2, 2, 4]


def changed(octets: bytes, place: int, values: dict[int, int]) -> bytes:
    """The operation with other octets in one of its records, by their distance from its position's end."""
    found = bytearray(octets)
    at = behind_position(octets, place)
    for ours, value in values.items():
        assert found[at + ours] != value
        found[at + ours] = value
    return bytes(found)


def behind_position(octets: bytes, place: int) -> int:
    return places_of(octets)[place] + records.SINGLE_HEAD_SIZE + 8


def places_of(octets: bytes) -> list[int]:
    """Where message records begin, by the runs of the operation."""
    found: list[int] = []
    for run in read_operation(octets).runs:
        found.extend(range(run.at, run.at + run.count * run.size, run.size))
    return found


def counts(octets: bytes) -> list[int]:
    return [run.count for run in read_operation(octets).runs]


def test_records_with_other_headers_of_the_same_size_are_in_one_run() -> None:
    octets = operation_of(("q", numbered(6)))
    record = records.MessageRecord(octets, places_of(octets)[0])
    # Behind it come when it expires, exchange and key, sizes, and the header.
    key_end = 8 + len(record.address()) - 1
    header_end = key_end + 8 + len(record.header())
    assert counts(changed(octets, 3, {header_end: 77})) == [6]
    assert counts(changed(octets, 3, {key_end: 77})) == [6]


def test_a_record_that_expires_is_not_in_a_run_with_others() -> None:
    octets = operation_of(("q", numbered(6)))
    assert counts(changed(octets, 3, {7: 1})) == [3, 1, 2]


def test_a_record_whose_parts_have_other_sizes_is_not_in_a_run_with_others() -> None:
    octets = operation_of(("q", numbered(6)))
    address = records.MessageRecord(octets, places_of(octets)[0]).address()
    at = behind_position(octets, 3)
    header_size, body_size = 8 + len(address) + 3, 8 + len(address) + 7
    # One octet of the header counts for the body now.
    values = {
        header_size: octets[at + header_size] - 1,
        body_size: octets[at + body_size] + 1,
    }
    assert counts(changed(octets, 3, values)) == [3, 1, 2]


def test_the_places_are_those_of_every_record() -> None:
    octets = operation_of(("q", numbered(300)), ("r", numbered(5, 7)), ("q", numbered(3)))
    operation = read_operation(octets)
    behind = octets[records.OPERATION_SIZE :]
    expected: list[int] = []
    while len(expected) < 308:
        last = expected[-1] if expected else 0
        expected.append(last + records.size_at(octets, last))
    assert places_of(octets) == expected
    assert sum(run.count for run in piece_runs(behind)) == 308
    assert sum(count for _, _, count in operation.enqueued()) == 308


def test_a_record_in_a_run_that_is_not_whole_is_refused() -> None:
    octets = bytearray(operation_of(("q", numbered(5))))
    third = places_of(bytes(octets))[2]
    # The size of its key, behind the pair and an empty exchange.
    key = third + records.SINGLE_HEAD_SIZE + 16 + 1
    octets[key] += 1
    with pytest.raises(BadOperation, match="not what its sizes say"):
        read_operation(bytes(octets))


def test_a_backup_has_the_messages_of_runs_where_its_root_has_them() -> None:
    root, backup = Member(), Member()
    root.promote(1)
    root.declare("q")
    root.tick()
    joined(backup, root)
    root.put("q", *numbered(700))
    root.tick()
    root.take("q", 300)
    root.tick()
    backup.follow(root)
    assert backup.digest() == root.digest()
    assert backup.vhost.queue("q").message_count == 400
    assert backup.vhost.queue("q").ready_bytes == 400 * 20
    audit(backup)
