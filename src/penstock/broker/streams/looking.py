"""Looking through a stream: its messages one after the other, read a batch at a time."""

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.walk import Walk
from penstock.broker.streams.files import StreamFiles


def look_on(files: StreamFiles, walk: Walk) -> QueueEntry | None:
    """The next message that is safe, or None at the end for now. Raises `Damaged`."""
    offset = max(walk.position(), files.log.first_offset)
    if not walk.ahead or walk.ahead[0].position != offset:
        if offset >= files.readable_offset():
            return None
        walk.ahead = _read(files, offset)
    entry = walk.ahead.pop(0)
    walk.seen(entry)
    return entry


def first_entries(files: StreamFiles, limit: int) -> list[QueueEntry]:
    """Of all that was written, safe or not."""
    found: list[QueueEntry] = []
    offset = files.log.first_offset
    while len(found) < limit and offset < files.log.end_offset:
        read = _read(files, offset)
        found.extend(read[: limit - len(found)])
        offset += len(read)
    return found


def _read(files: StreamFiles, offset: int) -> list[QueueEntry]:
    messages = files.read(offset)
    return [QueueEntry(message, offset + index) for index, message in enumerate(messages)]
