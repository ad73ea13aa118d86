"""What a bulk reader is told of a stream's files covers what is safe and nothing else."""

from penstock.formats.stream_index import ENTRY_SIZE
from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.stream_facts import SegmentFacts, segment_facts
from penstock.storage.stream_log import StreamLog
from tests.storage.stream_writing import ADDRESS

BODY = b"x" * 100


def written(log: StreamLog, *timestamps: int) -> None:
    for timestamp in timestamps:
        log.add(ADDRESS, b"header", BODY, 0, timestamp)
    log.write()


def test_what_is_not_safe_is_left_out() -> None:
    disk = MemoryDisk()
    log = StreamLog(disk, "s", [], 1000, 0)
    written(log, 10, 20)
    assert segment_facts(log) == []
    log.became_durable(log.end_offset)
    sizes = {name: disk.files[name].size() for name in disk.names()}
    written(log, 30)
    [facts] = segment_facts(log)
    assert facts == SegmentFacts(
        0, 2, 10, 20, facts.log_name, sizes[facts.log_name], facts.index_name, 3 * ENTRY_SIZE
    )
    assert sizes[facts.index_name] == facts.index_bytes


def test_segments_come_oldest_first_and_an_empty_one_not_at_all() -> None:
    log = StreamLog(MemoryDisk(), "s", [], 1000, 0)
    written(log, 10, 20)
    log.roll()
    written(log, 30)
    log.roll()
    log.flush_requested()
    log.became_durable(log.end_offset)
    ranges = [(facts.first_offset, facts.end_offset) for facts in segment_facts(log)]
    assert ranges == [(0, 2), (2, 3)]
    assert [facts.last_timestamp for facts in segment_facts(log)] == [20, 30]
    assert segment_facts(log)[1].log_name == "s/00000000000000000002.log"
