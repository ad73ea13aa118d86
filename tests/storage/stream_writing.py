"""A stream log in memory, and messages for it."""

from penstock.storage.memory_disk import MemoryDisk
from penstock.storage.stream_log import SEGMENT_BYTES_DEFAULT, StreamLog

FOLDER = "streams/76/71"
ADDRESS = b"\x02ex\x03key"
HEADER = b"header"


def open_log(disk: MemoryDisk, segment_bytes_max: int = SEGMENT_BYTES_DEFAULT) -> StreamLog:
    return StreamLog(disk, FOLDER, disk.names(), segment_bytes_max, 0)


def write(log: StreamLog, *bodies: bytes, timestamp: int = 1, is_safe: bool = True) -> None:
    """One batch, as a tick writes it."""
    for body in bodies:
        if log.must_roll():
            log.roll()
        log.add(ADDRESS, HEADER, body, 0, timestamp)
    log.write()
    if is_safe:
        log.flush_requested()
        log.became_durable(log.end_offset)


def bodies(log: StreamLog) -> list[bytes]:
    """Everything there is, read in pieces."""
    found: list[bytes] = []
    offset = log.first_offset
    while offset < log.end_offset:
        run = log.read(offset, 3, 1000)
        assert [entry.offset for entry in run] == list(range(offset, offset + len(run)))
        found += [entry.body for entry in run]
        offset += len(run)
    return found


def copy_of(disk: MemoryDisk) -> MemoryDisk:
    """What a crash leaves: the same octets, nobody's files."""
    copy = MemoryDisk()
    for name in disk.names():
        copy.open(name).append(bytes(disk.files[name].content))
    return copy
