"""The ledger: what happened to each message, in runs of positions."""

from penstock.broker.ledger import records
from penstock.broker.ledger.ledger import FOLDER, Ledger, is_ledger
from penstock.broker.topology import PurgeQueue
from penstock.storage.memory_disk import MemoryDisk
from tests.broker.store.doubles import ROOMY, Broker

Run = tuple[str, int, int, int, int]


def read(octets: bytes) -> list[Run]:
    """Queue, event, detail, first position, count of every record that speaks of messages."""
    assert octets[: len(records.MAGIC)] == records.MAGIC
    names: dict[int, str] = {}
    found: list[Run] = []
    at = records.RECORD_SIZE
    while at < len(octets):
        _, event, detail, _, name, first, count, _ = records.RECORD.unpack_from(octets, at)
        at += records.RECORD_SIZE
        if event == records.NAME:
            names[name] = octets[at : at + count].decode()
            at += -(-count // records.RECORD_SIZE) * records.RECORD_SIZE
        elif event != records.STARTED:
            found.append((names[name].partition("\0")[2], event, detail, first, count))
    return found


class Book:
    """A broker whose messages are written down."""

    def __init__(self, broker: Broker, **limits: int) -> None:
        self.broker = broker
        self.ledger = Ledger(broker.state, broker.disk, 1_700_000_000_000, **limits)

    def tick(self) -> None:
        self.broker.tick()
        self.ledger.end_of_tick(1_700_000_000_000 + self.broker.now)

    def files(self) -> list[bytes]:
        assert isinstance(self.broker.disk, MemoryDisk)
        files = self.broker.disk.files
        return [bytes(files[name].content) for name in sorted(files) if is_ledger(name)]

    def runs(self) -> list[Run]:
        return [run for octets in self.files() for run in read(octets)]


def test_a_run_of_messages_is_one_record() -> None:
    book = Book(Broker(limits=ROOMY))
    book.broker.declare("q")
    book.broker.put("q", *[b"x"] * 1000)
    book.tick()
    assert book.broker.take("q", 2) == [b"x", b"x"]
    book.tick()
    assert book.runs() == [
        ("q", records.ENQUEUED, 1, 1, 1000),
        ("q", records.DELIVERED, 0, 1, 1),
        ("q", records.ACKNOWLEDGED, 0, 1, 1),
        ("q", records.DELIVERED, 0, 2, 1),
        ("q", records.ACKNOWLEDGED, 0, 2, 1),
    ]


def test_persistent_and_transient_messages_are_told_apart() -> None:
    book = Book(Broker(limits=ROOMY))
    book.broker.declare("q")
    book.broker.put("q", b"1", b"2")
    book.broker.put("q", b"3", persistent=False)
    book.tick()
    assert book.runs() == [
        ("q", records.ENQUEUED, 1, 1, 2),
        ("q", records.ENQUEUED, 0, 3, 1),
    ]


def test_what_was_purged_is_told_also_when_it_was_paged_out() -> None:
    book = Book(Broker())
    book.broker.declare("q")
    book.broker.put("q", *[b"x"] * 50)
    book.tick()
    book.broker.apply(PurgeQueue("q"))
    book.tick()
    dropped = [run for run in book.runs() if run[1] == records.DROPPED]
    assert sum(run[4] for run in dropped) == 50
    assert {run[2] for run in dropped} == {records.REASONS.index("purged")}


def test_after_a_restart_it_says_what_was_there() -> None:
    first = Book(Broker(limits=ROOMY))
    first.broker.declare("q")
    first.broker.put("q", *[b"x"] * 10)
    first.tick()
    first.broker.take("q", 3)
    first.tick()
    second = Book(first.broker.restarted())
    assert read(second.files()[-1]) == [("q", records.RESTORED, 0, 4, 7)]


def test_a_file_that_is_full_is_followed_by_one_that_stands_for_itself() -> None:
    book = Book(Broker(limits=ROOMY), file_bytes_max=400, files_max=3)
    book.broker.declare("q")
    for _ in range(40):
        book.broker.put("q", b"x")
        book.tick()
    files = book.files()
    assert len(files) == 3
    assert [run[0] for octets in files for run in read(octets)][-1] == "q"
    assert all(len(octets) < 1000 for octets in files)


def test_files_of_a_ledger_have_names_of_their_own() -> None:
    assert is_ledger(f"{FOLDER}/000000000001.led")
    assert not is_ledger("journal/000000000001.log")
