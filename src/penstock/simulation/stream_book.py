"""The record of what was published to streams and read from them, compared with what they hold.

A stream keeps its messages, so everything that ever happened to it can be checked against its
present content: after every start, and at the end.
"""

from penstock.broker.entry import QueueEntry
from penstock.broker.state import DEFAULT_VHOST
from penstock.broker.streams.opening import find_stream
from penstock.broker.streams.stream import Stream
from penstock.node.node import Node
from penstock.simulation.book import Book
from penstock.simulation.checkers import BROWSE_MAX
from penstock.simulation.copies import Copy, Fate, name_in
from penstock.simulation.ledger import Ledger


class Readings:
    """How far a reader has come, and so its cursor at the most. Held by the book and by the reader."""

    def __init__(self, reader: str, stream: str, cursor: str) -> None:
        self.reader = reader
        self.stream = stream
        # Empty for a reader that remembers offsets itself.
        self.cursor = cursor
        self._settled: set[int] = set()
        # Everything before it was settled.
        self.limit = 0

    def settled(self, offset: int) -> None:
        self._settled.add(offset)
        while self.limit in self._settled:
            self._settled.discard(self.limit)
            self.limit += 1

    def skip_to(self, offset: int) -> None:
        """What is before it is not there any more."""
        while self.limit < offset:
            self.settled(self.limit)


class StreamBook(Book):
    """Held by the ledger, by the publishers to the streams and by their readers."""

    def __init__(self, ledger: Ledger, streams: tuple[str, ...]) -> None:
        super().__init__(ledger)
        self._streams = streams
        # What a reader saw at an offset of a stream; and the stream of a routing key.
        self._seen: dict[tuple[str, int], bytes] = {}
        self._stream_of: dict[str, str] = {}
        self._readings: list[Readings] = []

    # Readers say.

    def readings_of(self, reader: str, stream: str, cursor: str) -> Readings:
        readings = Readings(reader, stream, cursor)
        self._readings.append(readings)
        return readings

    def read(self, reader: str, stream: str, offset: int, body: bytes) -> None:
        name = name_in(body)
        if not self.knows(name, body):
            self._ledger.violated(
                f"{reader} read a message at {offset} that was never published: {body[:40]!r}"
            )
        self._note(stream, offset, name, f"{reader} read")

    def _note(self, stream: str, offset: int, name: bytes, who: str) -> None:
        known = self._seen.setdefault((stream, offset), name)
        if known != name:
            self._ledger.violated(f"{who} {name!r} at {offset} of {stream}, where {known!r} was")

    # What must hold.

    def broken(self, node: Node) -> list[str]:
        complaints: list[str] = []
        found: dict[bytes, tuple[str, int]] = {}
        for name in self._streams:
            stream = stream_of(node, name)
            if stream is None:
                complaints.append(f"{name} is missing")
                continue
            complaints += self._differing(stream, found)
            complaints += self._running_ahead(stream)
        elsewhere = self.elsewhere(node)
        there = found.keys() | elsewhere.keys()
        complaints += [
            f"confirmed {copy.name!r} is in no stream"
            for copy in self.copies.values()
            if copy.fate is Fate.CONFIRMED and copy.name not in there
            if not self.may_lack(copy.name, node)
        ]
        complaints += [
            f"{name!r} is at {found[name]} and in {place}"
            for name, place in elsewhere.items()
            if name in found
        ]
        return complaints

    def elsewhere(self, node: Node) -> dict[bytes, str]:
        """Messages that are pending for a stream, and where they are."""
        return {}

    def begin_of(self, stream: Stream) -> int:
        """The first offset of what a server can read. Nothing is ever given up here."""
        del stream
        return 0

    def may_lack(self, name: bytes, node: Node) -> bool:
        """Whether retention may have given it up."""
        del name, node
        return False

    def may_skip(self, readings: Readings, offset: int) -> bool:
        """Whether a reader may go on at an offset, and has not seen everything before it."""
        del readings, offset
        return False

    def is_ordered(self, copy: Copy) -> bool:
        """Whether it came straight from its publisher."""
        return True

    def _differing(self, stream: Stream, found: dict[bytes, tuple[str, int]]) -> list[str]:
        complaints: list[str] = []
        last: dict[tuple[str, int], int] = {}
        entries = [*stream.browse(BROWSE_MAX), *held_for(stream)]
        if [entry.position for entry in entries] != list(
            range(self.begin_of(stream), stream.end_offset)
        ):
            complaints.append(f"{stream.name} has gaps")
        for entry in entries:
            offset = entry.position
            name = name_in(entry.message.body)
            if not self.knows(name, entry.message.body):
                complaints.append(
                    f"{stream.name} holds a message that was never published: {name!r}"
                )
                continue
            copy = self.copies[name]
            if name in found:
                complaints.append(f"{name!r} is at {found[name]} and at {offset} of {stream.name}")
            found[name] = (stream.name, offset)
            if self._stream_of.setdefault(copy.key, stream.name) != stream.name:
                complaints.append(f"key {copy.key} leads to {stream.name} and to another stream")
            # Order is guaranteed for one channel, and always for publishers that number their
            # messages.
            key = (copy.publisher, 0 if copy.publisher in self.numbering else copy.epoch)
            if self.is_ordered(copy):
                if copy.serial <= last.get(key, -1):
                    complaints.append(f"{name!r} of {stream.name} is out of order")
                last[key] = copy.serial
        for (where, offset), name in self._seen.items():
            is_kept = where == stream.name and offset >= self.begin_of(stream)
            if is_kept and found.get(name) != (where, offset):
                complaints.append(f"{name!r} was read at {offset} of {where}, but is not there")
        return complaints

    def _running_ahead(self, stream: Stream) -> list[str]:
        complaints: list[str] = []
        at = {name: offset for name, offset, _ in stream.cursors()}
        for readings in self._readings:
            cursor = readings.cursor
            if not cursor or readings.stream != stream.name:
                continue
            if cursor not in at:
                complaints.append(f"cursor {cursor} of {stream.name} is gone")
            elif at[cursor] > max(readings.limit, self.begin_of(stream)):
                complaints.append(
                    f"cursor {cursor} is at {at[cursor]}, ahead of what was settled: {readings.limit}"
                )
        return complaints

    def unfinished(self, node: Node) -> list[str]:
        """Readers that have not reached the end of their stream."""
        complaints: list[str] = []
        for readings in self._readings:
            stream = stream_of(node, readings.stream)
            if stream is not None and readings.limit < stream.end_offset:
                complaints.append(f"{readings.reader} is at {readings.limit}, not at the end")
        return complaints


def stream_of(node: Node, name: str) -> Stream | None:
    return find_stream(node.state.vhost(DEFAULT_VHOST).queues, name)


def held_for(stream: Stream) -> list[QueueEntry]:
    """Messages that are pending for a stream in the journal, each with the offset it will have."""
    return stream.files.waiting()
