"""A survey finds every message of a stream that can still be read, and says what is wrong."""

import pytest

from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.number_table import NumberTable
from penstock.storage.stream_survey import StreamSurvey
from penstock.storage.stream_walk import BAD_PREAMBLE, LOST, MISSING, UNVOUCHED, MessageListener
from tests.storage.stream_writing import FOLDER, copy_of, open_log, write

BODIES = [b"%d" % number * (number + 1) for number in range(9)]
SEGMENT_BYTES = 250
LOG = FOLDER + "/00000000000000000000.log"
INDEX = FOLDER + "/00000000000000000000.idx"


class Found(MessageListener):
    """Bodies by offset, and what is lost."""

    def __init__(self) -> None:
        self.bodies: dict[int, bytes] = {}
        self.gone: list[int] = []

    def message(self, offset: int, timestamp: int, flags: int, payload: bytes) -> None:
        self.bodies[offset] = payload[len(b"\x02ex\x03key") + 4 + len(b"header") + 4 :]

    def lost(self, offset: int, timestamp: int) -> None:
        self.gone.append(offset)


def written() -> MemoryDisk:
    disk = MemoryDisk()
    log = open_log(disk, SEGMENT_BYTES)
    for body in BODIES:
        write(log, body)
    return disk


def survey(disk: MemoryDisk) -> StreamSurvey:
    return StreamSurvey(disk, FOLDER, disk.names(), "")


def found(look: StreamSurvey) -> Found:
    sink = Found()
    for place in range(len(look.numbers)):
        look.walk(place, sink)
    return sink


def test_a_whole_stream_has_nothing_wrong() -> None:
    disk = written()
    look = survey(disk)
    assert len(look.numbers) > 2
    assert (look.first_offset(), look.end_offset()) == (0, 9)
    assert look.damage() == [] and look.torn_tail() is None
    assert list(found(look).bodies.values()) == BODIES


@pytest.mark.parametrize("kind", [".log", ".idx"])
def test_any_octet_that_changed_is_noticed_and_costs_one_message_at_most(kind: str) -> None:
    disk = written()
    # The last message's own entry vouches for nothing that comes before it.
    sealed = [name for name in disk.names() if name.endswith(kind)][:-1]
    for name in sealed:
        for at in range(disk.files[name].size()):
            if kind == ".idx" and at >= 32 and at % 32 >= 28:
                continue  # `unsynced` stands under no checksum; it only tells torn from damaged
            broken = copy_of(disk)
            broken.files[name].content[at] ^= 0xFF
            look = survey(broken)
            [problem] = look.damage()
            assert problem.file == name or problem.what == LOST
            assert look.torn_tail() is None
            sink = found(look)
            assert len(sink.gone) <= 1
            assert sorted([*sink.bodies, *sink.gone]) == list(range(9))
            assert all(BODIES[offset] == body for offset, body in sink.bodies.items())


def test_a_stream_without_an_index_is_read_by_the_lengths_in_its_log() -> None:
    disk = written()
    disk.remove(INDEX)
    look = survey(disk)
    assert [problem.what for problem in look.damage()] == [MISSING, UNVOUCHED]
    assert look.damage()[1].count == look.numbers[1]
    assert list(found(look).bodies.values()) == BODIES


def test_a_segment_without_a_log_is_lost_and_the_others_are_not() -> None:
    disk = written()
    disk.remove(LOG)
    look = survey(disk)
    assert [problem.what for problem in look.damage()] == [MISSING, LOST]
    assert found(look).gone == list(range(look.numbers[1]))
    assert list(found(look).bodies.values()) == BODIES[look.numbers[1] :]


def test_a_log_that_was_cut_loses_what_was_behind_the_cut() -> None:
    disk = written()
    file = disk.files[LOG]
    file.truncate(file.size() - 1)
    look = survey(disk)
    [problem] = look.damage()
    assert (problem.what, problem.offset, problem.count) == (LOST, look.numbers[1] - 1, 1)


def test_a_damaged_preamble_is_named() -> None:
    disk = written()
    disk.files[LOG].content[3] ^= 1
    [problem] = survey(disk).damage()
    assert (problem.file, problem.at, problem.what) == (LOG, 0, BAD_PREAMBLE)


def test_what_was_never_safe_is_a_torn_tail() -> None:
    disk = written()
    log = open_log(disk, 1 << 20)
    write(log, b"ninth", b"tenth", is_safe=False)
    name = log.segments[-1].log_name
    disk.files[name].content[-7] ^= 1
    look = survey(disk)
    assert look.damage() == []
    torn = look.torn_tail()
    assert torn is not None and (torn.file, torn.offset) == (name, 10)
    assert look.end_offset() == 10


def test_segments_that_retention_gave_up_do_not_count() -> None:
    disk = written()
    second = survey(disk).numbers[1]
    table = NumberTable(disk, f"{FOLDER}/cursors", [])
    table.put("", second)
    table.put("reader", 3)
    table.write()
    disk.files[LOG].content[50] ^= 1
    look = survey(disk)
    assert look.first_offset() == second
    assert look.damage() == []
    assert look.cursors.numbers == {"": second, "reader": 3}
