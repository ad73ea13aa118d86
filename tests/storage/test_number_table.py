"""A small table survives crashes at any octet and does not grow with its history."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.number_table import COMPACT_BYTES_MIN, NumberTable
from tests.storage.stream_writing import copy_of


def open_table(disk: MemoryDisk) -> NumberTable:
    return NumberTable(disk, "folder/cursors", disk.names())


def test_what_was_written_is_there_again() -> None:
    disk = MemoryDisk()
    table = open_table(disk)
    table.put("a", 1)
    table.put("b", -1)
    table.put("a", 5)
    table.put("gone", 7)
    assert table.remove("gone")
    assert not table.remove("never there")
    table.write()
    assert open_table(copy_of(disk)).numbers == {"a": 5, "b": -1}


def test_without_changes_nothing_is_written() -> None:
    disk = MemoryDisk()
    table = open_table(disk)
    assert not table.write()
    assert disk.names() == []


def test_the_file_does_not_grow_with_its_history() -> None:
    disk = MemoryDisk()
    table = open_table(disk)
    for number in range(20_000):
        table.put(f"cursor-{number % 3}", number)
        table.write()
        table.became_durable(table.generation)
    assert len(disk.names()) == 1
    assert sum(file.size() for file in disk.files.values()) < 2 * COMPACT_BYTES_MIN
    numbers = {"cursor-0": 19_998, "cursor-1": 19_999, "cursor-2": 19_997}
    assert open_table(copy_of(disk)).numbers == numbers


def test_the_old_generation_stays_until_the_new_one_is_safe() -> None:
    disk = MemoryDisk()
    table = open_table(disk)
    number = 0
    while len(disk.names()) < 2:
        number += 1
        table.put("cursor", number)
        table.write()
    newest = disk.names()[-1]
    left = copy_of(disk)
    left.files[newest].truncate(left.files[newest].size() - 1)
    assert open_table(left).numbers == {"cursor": number - 1}
    assert len(left.names()) == 1
    again = copy_of(disk)
    table = open_table(again)
    assert table.numbers == {"cursor": number}
    assert len(again.names()) == 2
    table.became_durable(table.generation)
    assert len(again.names()) == 1


@given(lost=st.integers(0, 500))
def test_a_torn_tail_is_cut_and_the_table_goes_on(lost: int) -> None:
    disk = MemoryDisk()
    table = open_table(disk)
    table.put("a", 0)
    table.write()
    begun = disk.files[disk.names()[0]].size()
    for number in range(1, 10):
        table.put("a", number)
        table.write()
    left = copy_of(disk)
    file = left.files[left.names()[0]]
    file.truncate(max(begun, file.size() - lost))
    again = open_table(left)
    assert 0 <= again.numbers["a"] <= 9
    again.put("b", 3)
    again.write()
    assert open_table(copy_of(left)).numbers == again.numbers


def test_a_deleted_table_leaves_no_file() -> None:
    disk = MemoryDisk()
    table = open_table(disk)
    table.put("a", 1)
    table.write()
    table.delete()
    assert disk.names() == []
