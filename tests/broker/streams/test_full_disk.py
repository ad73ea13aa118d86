"""A stream is opened on a full disk: what it knows of publishers stays on disk all the same."""

from penstock.broker.stream_store import StreamStore
from penstock.broker.streams.journalled_appends import JournalledAppends
from penstock.broker.streams.local_files import LocalFiles
from penstock.simulation.clock import VirtualClock
from penstock.simulation.disk import SimulatedDisk
from penstock.storage.stream_segment import publishers_name
from penstock.world.disk import FlushListener
from tests.broker.streams.doubles import TextDecoder, message
from tests.simulation.doubles import dice_of

FOLDER = "streams/2f/73-1"
SEGMENT_BYTES = 2000
SECOND = 1_000_000
COUNT = 20
KNOWN = {"p": COUNT - 1}


class Life(FlushListener):
    """One process with the stream open."""

    def __init__(self, disk: SimulatedDisk, clock: VirtualClock) -> None:
        self.disk = disk
        self._clock = clock
        self._store = StreamStore()
        self._store.disk = disk
        self._store.decoder = TextDecoder()
        self._store.is_flushed = True
        self.files = LocalFiles(
            self._store, FOLDER, disk.names(), SEGMENT_BYTES, 0, JournalledAppends(self._store)
        )
        self._position = 0

    def publish(self, sequence: int) -> None:
        sent = message(b"x" * 300, x_publisher_id="p", x_publisher_sequence=sequence)
        self.files.add(sent, 0)
        self.files.write()

    def flush(self) -> None:
        """Until nothing more is to be flushed."""
        while self._store.is_dirty():
            self._position += 1
            self.disk.flush(self._store.take_dirty(self._position), self._position, self)
            self._clock.run(SECOND)

    def flushed(self, token: int, now: int) -> None:
        self._store.became_durable(token, now)

    def flush_failed(self, reason: str, now: int) -> None:
        raise AssertionError(reason)

    def last_note(self) -> str:
        return publishers_name(FOLDER, self.files.log.segments[-1].first_offset)

    def known(self) -> dict[str, int]:
        return self.files.publishers.sequences

    def killed(self) -> "Life":
        """And started again."""
        self.disk.kill()
        return Life(self.disk, self._clock)


def written() -> Life:
    """Several segments with messages of one publisher, all of them safe."""
    clock = VirtualClock()
    life = Life(SimulatedDisk(clock, dice_of(1)), clock)
    for sequence in range(COUNT):
        life.publish(sequence)
        life.flush()
    assert len(life.files.log.segments) > 2
    return life


def test_retention_waits_until_the_last_segment_has_its_note() -> None:
    first = written()
    first.disk.remove(first.last_note())
    first.disk.fill_up(0)
    life = first.killed()
    assert life.known() == KNOWN
    life.flush()
    life.files.limit(1, -1, SEGMENT_BYTES)
    before = life.disk.names()
    life.files.retain(0)
    life.flush()
    assert life.disk.names() == before
    again = life.killed()
    assert again.known() == KNOWN
    again.disk.heal()
    again.files.limit(1, -1, SEGMENT_BYTES)
    again.files.retain(0)
    again.flush()
    assert [name for name in again.disk.names() if name.endswith(".pub")] == [again.last_note()]
    assert again.killed().known() == KNOWN


def test_what_retention_has_given_up_stays_while_it_alone_tells_of_publishers() -> None:
    first = written()
    # A power loss brings back what was removed, and has kept nothing of the last note.
    removed = {name: first.disk.open(name) for name in first.disk.names() if "cursors" not in name}
    contents = {name: file.read(0, file.size()) for name, file in removed.items()}
    first.files.limit(1, -1, SEGMENT_BYTES)
    first.files.retain(0)
    first.flush()
    first.disk.remove(first.last_note())
    lost = [name for name in contents if name not in first.disk.names()]
    for name in lost:
        if name != first.last_note():
            first.disk.open(name).append(contents[name])
    first.disk.fill_up(0)
    life = first.killed()
    assert life.known() == KNOWN
    before = life.disk.names()
    life.flush()
    assert life.disk.names() == before
    life = life.killed()
    assert life.known() == KNOWN
    life.disk.heal()
    life.files.limit(1, -1, SEGMENT_BYTES)
    life.files.retain(0)
    life.flush()
    assert len([name for name in life.disk.names() if name.endswith(".pub")]) == 1
    assert life.killed().known() == KNOWN
