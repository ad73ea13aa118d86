"""A stream on the simulated disk: whatever dies when, what readers saw stays as they saw it."""

from collections.abc import Callable

import pytest

from penstock.broker.message import Address
from penstock.broker.sent import Sent
from penstock.broker.sinks.message_rows import rows_of
from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.journalled_appends import JournalledAppends
from penstock.broker.streams.local_files import LocalFiles
from penstock.broker.streams.rows import StreamRows
from penstock.formats.stage_block import BlockRows, block_of
from penstock.formats.stream_index import HAS_PUBLISHER
from penstock.simulation.clock import VirtualClock
from penstock.simulation.disk import SimulatedDisk
from penstock.world.disk import FlushListener
from tests.broker.streams.doubles import TextDecoder, message
from tests.simulation.doubles import dice_of

FOLDER = "streams/2f/73-1"
SEGMENT_BYTES = 6000
ALL_BYTES = 30_000
LIVES = 8
ANYWHERE = Address("ex", "key", b"")


class Flusher(FlushListener):
    """Asks for flushes as a node does and hands the answers on."""

    def __init__(self, store: StreamStore) -> None:
        self._store = store
        self._position = 0

    def request(self) -> None:
        self._position += 1
        files = self._store.take_dirty(self._position)
        self._store.disk.flush(files, self._position, self)

    def flushed(self, token: int, now: int) -> None:
        self._store.became_durable(token, now)

    def flush_failed(self, reason: str, now: int) -> None:
        raise AssertionError(reason)


class Story:
    """One seed: lives of a stream, each ended by a kill or a power loss."""

    def __init__(self, seed: int) -> None:
        self.clock = VirtualClock()
        self.dice = dice_of(seed)
        self.disk = SimulatedDisk(self.clock, self.dice.fork("disk"))
        # Body by offset, of what the stream holds or held.
        self.bodies: dict[int, bytes] = {}
        # Every offset before this one has been safe, and may have been read.
        self.safe_offset = 0
        self.first_offset = 0
        self.count = 0
        self.removed_count = 0
        # Rows of the sink so far; by offset where a block begins or ends, -1 within one.
        self.row_count = 0
        self.rows_before: dict[int, int] = {}
        self.repeated_count = 0

    def live(self) -> None:
        store = StreamStore()
        store.disk = self.disk
        store.decoder = TextDecoder()
        store.is_flushed = True
        files = LocalFiles(
            store, FOLDER, self.disk.names(), SEGMENT_BYTES, 0, JournalledAppends(store)
        )
        files.limit(ALL_BYTES, -1, SEGMENT_BYTES)
        self.check(files)
        flusher = Flusher(store)
        flusher.request()
        for _ in range(self.dice.between(0, 60)):
            self.act(files, flusher)
        self.safe_offset = max(self.safe_offset, files.log.durable_offset)
        self.first_offset = max(self.first_offset, files.log.first_offset)

    def act(self, files: LocalFiles, flusher: Flusher) -> None:
        actions: list[tuple[Callable[[LocalFiles, Flusher], None], int]] = [
            (self.publish, 10),
            (self.publish_rows, 6),
            (self.flush, 5),
            (self.wait, 5),
            (self.move_cursor, 3),
        ]
        self.dice.weighted(actions)(files, flusher)

    def publish(self, files: LocalFiles, flusher: Flusher) -> None:
        for _ in range(self.dice.between(1, 20)):
            files.begin_if_full(0)
            self.count += 1
            body = b"%d" % self.count * self.dice.between(1, 60)
            sent = message(body, x_publisher_id="p", x_publisher_sequence=self.count)
            assert not files.publishers.check_and_note(Sent("p", self.count))
            header = sent.properties.encoded()
            offset = files.log.add(sent.address.octets(), header, body, HAS_PUBLISHER, 0)
            files.notes.published(offset)
            self.bodies[offset] = body
        files.write()

    def publish_rows(self, files: LocalFiles, flusher: Flusher) -> None:
        """A block of a sink, which comes as a whole or not at all."""
        bodies = [b"%d" % self.dice.between(0, 99) for _ in range(self.dice.between(1, 30))]
        rows = rows_of([message(body) for body in bodies])
        block = BlockRows(block_of(0, rows.count, rows.parts[0][1]))
        self.row_count += rows.count
        taken = StreamRows("stage", self.row_count)
        for run in block.runs():
            taken.add(run, 0, run.count, ANYWHERE, message(b"").properties)
        offset = files.add_rows(taken, 0)
        for place, body in enumerate(bodies):
            self.bodies[offset + place] = body
            self.rows_before[offset + place + 1] = -1
        self.rows_before[offset] = self.row_count - rows.count
        self.rows_before[offset + len(bodies)] = self.row_count
        if self.dice.chance(0.8):
            files.write()

    def flush(self, files: LocalFiles, flusher: Flusher) -> None:
        files.write()
        flusher.request()

    def wait(self, files: LocalFiles, flusher: Flusher) -> None:
        self.clock.run(self.dice.between(0, 20_000))

    def move_cursor(self, files: LocalFiles, flusher: Flusher) -> None:
        files.cursors.put("c", files.log.end_offset - 1)
        files.write_cursors()

    def check(self, files: LocalFiles) -> None:
        log = files.log
        assert log.end_offset >= self.safe_offset, "a message that had been safe is gone"
        if log.first_offset > self.first_offset:
            assert self.first_offset >= self.safe_offset, "what had been safe begins too late"
        self.removed_count += log.first_offset > 0
        offset = log.first_offset
        last_sequence = 0
        while offset < log.end_offset:
            for entry in log.read(offset, 100, 10_000):
                assert entry.body == self.bodies[entry.offset], "an offset means another message"
                if entry.flags & HAS_PUBLISHER:
                    last_sequence = int(entry.header.rpartition(b":")[2].strip(b" }"))
                offset += 1
        if last_sequence:
            assert files.publishers.sequences.get("p", 0) == last_sequence
        self.check_rows(files)
        # What was not safe may be gone; its number is then given to another message.
        self.bodies = {key: body for key, body in self.bodies.items() if key < log.end_offset}

    def check_rows(self, files: LocalFiles) -> None:
        """What the stream knows of the sink is what it holds: whole blocks, all that are there."""
        first, end = files.log.first_offset, files.log.end_offset
        self.rows_before = {
            key: rows
            for key, rows in self.rows_before.items()
            # Offsets may jump when nothing is left but what retention gave up.
            if key <= self.safe_offset or first < key <= end
        }
        expected = max(self.rows_before.values(), default=0)
        assert self.rows_before.get(end, expected) == expected, "it ends within a block"
        assert files.publishers.stages.get("stage", 0) == expected
        if self.row_count > expected:
            self.repeated_count += 1
        # The sink publishes again what is not known.
        self.row_count = expected

    def die(self) -> None:
        if self.dice.chance(0.3):
            self.disk.kill()
        else:
            self.disk.crash()


@pytest.mark.parametrize("block", range(4))
def test_what_was_safe_survives_kills_and_power_losses(block: int) -> None:
    removed = 0
    repeated = 0
    for seed in range(block * 25, block * 25 + 25):
        story = Story(seed)
        for _ in range(LIVES):
            story.live()
            story.die()
        removed += story.removed_count
        repeated += story.repeated_count
    assert removed, "no story came as far as retention"
    assert repeated, "no story lost a block"
