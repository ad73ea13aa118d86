"""Promises on disk: durable in order, a torn tail is cut, damage is refused."""

import zlib

import pytest

from penstock.cluster.errors import PromisesDamaged
from penstock.cluster.promise_file import encode_head, file_name
from penstock.cluster.promises import (
    FILE_BYTES_MAX,
    Promises,
    PromisesListener,
    format_promises,
    has_promises,
    open_promises,
)
from penstock.simulation.clock import VirtualClock
from penstock.simulation.disk import SimulatedDisk
from penstock.storage.errors import NotAStore, WrongVersion
from penstock.storage.memory_disk import MemoryDisk
from tests.cluster.doubles import bootstrap, promises_of, record_of, store_id_of
from tests.simulation.doubles import dice_of
from tests.storage.doubles import MemoryDisk as BreakingDisk

FIRST = file_name(1)
SECOND = file_name(2)


class RecordingListener(PromisesListener):
    def __init__(self) -> None:
        self.told: list[str] = []

    def promised(self, now: int) -> None:
        self.told.append("promised")

    def promise_failed(self, reason: str, now: int) -> None:
        self.told.append(reason)


def state_of(promises: Promises) -> tuple[object, ...]:
    return (promises.store_id, promises.epoch, promises.voted_for, promises.record)


def test_promises_are_read_back() -> None:
    disk = MemoryDisk()
    promises = promises_of("a", bootstrap(), disk)
    promises.change(3, "b", record_of(2, 1), 0)
    assert state_of(open_promises(disk)) == (store_id_of("a"), 3, "b", record_of(2, 1))


def test_an_empty_directory_has_no_promises() -> None:
    disk = MemoryDisk()
    assert not has_promises(disk)
    format_promises(disk, store_id_of("a"), bootstrap())
    assert has_promises(disk)


def test_a_change_is_durable_when_its_flush_was_answered() -> None:
    disk = MemoryDisk(at_once=False)
    promises = promises_of("a", bootstrap(), disk)
    version = promises.change(1, "a", bootstrap(), 5)
    assert not promises.is_durable(version)
    assert promises.flushing_since == 5
    disk.answer_flushes(9)
    assert promises.is_durable(version)
    assert promises.flushing_since == -1


def test_a_change_during_a_flush_waits_for_the_next_one() -> None:
    disk = MemoryDisk(at_once=False)
    promises = promises_of("a", bootstrap(), disk)
    first = promises.change(1, "a", record_of(1, 1), 0)
    second = promises.change(2, "b", record_of(2, 1), 0)
    disk.answer_flushes(0)
    assert promises.is_durable(first)
    assert not promises.is_durable(second)
    assert promises.durable_record == record_of(1, 1)
    disk.answer_flushes(0)
    assert promises.is_durable(second)
    assert promises.durable_record == record_of(2, 1)


def test_neither_epochs_nor_records_go_back() -> None:
    promises = promises_of("a", record_of(2, 1), epoch=2)
    with pytest.raises(AssertionError, match="epochs"):
        promises.change(1, "", record_of(2, 1), 0)
    with pytest.raises(AssertionError, match="records"):
        promises.change(2, "", record_of(1, 9), 0)


def test_a_torn_tail_is_cut_at_every_octet() -> None:
    disk = MemoryDisk(at_once=False)
    promises = promises_of("a", bootstrap(), disk)
    promises.change(1, "a", record_of(1, 1), 0)
    disk.answer_flushes(0)
    whole = bytes(disk.files[FIRST].content)
    promises.change(2, "b", record_of(2, 1), 0)
    torn = bytes(disk.files[FIRST].content)
    for size in range(len(whole), len(torn)):
        again = MemoryDisk()
        again.open(FIRST).append(torn[:size])
        found = open_promises(again)
        assert (found.epoch, found.voted_for) == (1, "a")
        # It goes on where the whole entries end.
        found.change(4, "c", record_of(2, 2), 0)
        assert open_promises(again).epoch == 4


def test_damage_to_anything_that_was_durable_is_refused_with_file_and_offset() -> None:
    disk = MemoryDisk()
    promises = promises_of("a", bootstrap(), disk)
    before = disk.files[FIRST].size()
    promises.change(1, "a", record_of(1, 1), 0)
    whole = bytes(disk.files[FIRST].content)
    for at in (before, before + 9, len(whole) - 20):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        again = MemoryDisk()
        again.open(FIRST).append(bytes(damaged))
        with pytest.raises(PromisesDamaged, match=f"{FIRST} is damaged at offset {before}") as info:
            open_promises(again)
        assert "penstock cluster replace" in str(info.value)
        assert bytes(again.files[FIRST].content) == bytes(damaged)


def test_a_damaged_beginning_is_refused() -> None:
    disk = MemoryDisk()
    promises_of("a", bootstrap(), disk)
    disk.files[FIRST].content[3] ^= 1
    with pytest.raises(PromisesDamaged, match="does not begin with a whole promise"):
        open_promises(disk)


def test_files_that_are_not_promises_are_refused() -> None:
    disk = MemoryDisk()
    disk.open("cluster/promises-x").append(b"?")
    with pytest.raises(NotAStore):
        has_promises(disk)


def test_another_format_version_is_refused() -> None:
    disk = MemoryDisk()
    promises_of("a", bootstrap(), disk)
    content = disk.files[FIRST].content
    head = bytearray(encode_head(store_id_of("a")))
    head[17] = 2
    head[-4:] = zlib_crc(bytes(head[:-4]))
    content[: len(head)] = head
    with pytest.raises(WrongVersion):
        open_promises(disk)


def zlib_crc(octets: bytes) -> bytes:
    return zlib.crc32(octets).to_bytes(4, "big")


def grown(disk: MemoryDisk) -> Promises:
    """Promises whose next change begins a new file."""
    promises = promises_of("a", bootstrap(), disk)
    while disk.files[FIRST].size() <= FILE_BYTES_MAX:
        promises.change(promises.epoch + 1, "", bootstrap(), 0)
        disk.answer_flushes(0)
    return promises


def test_a_long_file_is_replaced_once_the_new_one_is_durable() -> None:
    disk = MemoryDisk(at_once=False)
    promises = grown(disk)
    epoch = promises.epoch
    promises.change(epoch + 1, "b", record_of(1, 1), 0)
    assert disk.names() == [FIRST, SECOND]
    disk.answer_flushes(0)
    assert disk.names() == [SECOND]
    found = open_promises(disk)
    assert (found.epoch, found.voted_for, found.record) == (epoch + 1, "b", record_of(1, 1))


def test_a_new_file_that_was_torn_leaves_the_old_one_in_force() -> None:
    disk = MemoryDisk(at_once=False)
    promises = grown(disk)
    epoch = promises.epoch
    promises.change(epoch + 1, "b", record_of(1, 1), 0)
    whole = bytes(disk.files[SECOND].content)
    for size in (0, 10, 40, len(whole) - 1):
        again = MemoryDisk()
        again.open(FIRST).append(bytes(disk.files[FIRST].content))
        again.open(SECOND).append(whole[:size])
        assert open_promises(again).epoch == epoch
        assert again.names() == [FIRST]


def formatted_breaking_disk() -> BreakingDisk:
    disk = BreakingDisk()
    format_promises(disk, store_id_of("a"), bootstrap())
    return BreakingDisk(disk.contents())


def test_a_disk_that_fails_makes_nothing_durable_and_is_reported() -> None:
    disk = formatted_breaking_disk()
    promises = open_promises(disk)
    listener = RecordingListener()
    promises.listener = listener
    disk.breaks = True
    version = promises.change(1, "a", bootstrap(), 0)
    assert listener.told == ["input/output error"]
    assert not promises.is_durable(version)


def test_a_flush_that_fails_is_reported() -> None:
    disk = formatted_breaking_disk()
    promises = open_promises(disk)
    listener = RecordingListener()
    promises.listener = listener
    version = promises.change(1, "a", bootstrap(), 0)
    disk.flushes.pop().listener.flush_failed("the disk is gone", 0)
    assert listener.told == ["the disk is gone"]
    assert not promises.is_durable(version)


@pytest.mark.parametrize("seed", range(25))
def test_what_was_durable_survives_power_losses(seed: int) -> None:
    """Changes at random moments, crashes at random moments: never less than what was durable."""
    dice = dice_of(seed)
    clock = VirtualClock()
    disk = SimulatedDisk(clock, dice)
    format_promises(disk, store_id_of("a"), bootstrap())
    for _ in range(8):
        promises = open_promises(disk)
        known = {promises.version: promises.epoch}
        for _ in range(dice.between(0, 120)):
            version = promises.change(promises.epoch + 1, "a", bootstrap("abcde"), 0)
            known[version] = promises.epoch
            if dice.chance(0.5):
                clock.run(dice.between(0, 20_000))
        durable = known[promises.durable_version]
        last = promises.epoch
        if dice.chance(0.5):
            disk.crash()
        else:
            disk.kill()
        assert durable <= open_promises(disk).epoch <= last


# Whose answers count.


def test_a_member_counts_with_its_own_store_only() -> None:
    promises = promises_of("a", record_of(1, 1), epoch=1)
    assert promises.counts(record_of(1, 1), "b", store_id_of("b"))
    assert not promises.counts(record_of(1, 1), "b", store_id_of("b", life=2))
    assert not promises.counts(record_of(1, 1), "x", store_id_of("x"))
    assert not promises.counts(record_of(1, 1), "b", b"")


def test_while_the_record_has_no_store_the_first_one_that_was_heard_counts() -> None:
    disk = MemoryDisk()
    promises = promises_of("a", bootstrap(), disk)
    assert promises.counts(bootstrap(), "b", store_id_of("b", life=2))
    promises.heard("b", store_id_of("b"), 0)
    promises.heard("b", store_id_of("b", life=2), 0)
    promises.heard("stranger", store_id_of("stranger"), 0)
    for found in (promises, open_promises(disk)):
        assert found.stores == {"b": store_id_of("b")}
        assert found.counts(bootstrap(), "b", store_id_of("b"))
        assert not found.counts(bootstrap(), "b", store_id_of("b", life=2))
        assert found.counts(bootstrap(), "c", store_id_of("c"))


def test_a_record_that_has_the_store_is_right() -> None:
    promises = promises_of("a", bootstrap(), MemoryDisk())
    promises.heard("b", store_id_of("b", life=2), 0)
    promises.change(1, "", record_of(1, 1), 0)
    assert promises.stores == {}
    assert promises.counts(record_of(1, 1), "b", store_id_of("b"))
