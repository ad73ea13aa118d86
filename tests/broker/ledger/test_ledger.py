"""The ledger: what happened to each message, in runs of positions."""

import struct

from penstock.broker.leases.leases import LeaseRequest, take_lease
from penstock.broker.ledger.ledger import FOLDER, Ledger, is_ledger
from penstock.broker.ledger.queue_ledger import SEQUENCES_MAX
from penstock.broker.ledger.routes import RENEWED_MS
from penstock.broker.message import Publisher
from penstock.broker.topology import PurgeQueue
from penstock.formats import ledger_records as records
from penstock.storage.memory_disk import MemoryDisk
from tests.broker.store.doubles import ROOMY, WALL, Broker, message

Run = tuple[str, int, int, int, int]
# Publisher, first position and the sequences of its messages.
Published = tuple[str, int, list[int]]


def read(octets: bytes) -> list[Run]:
    """Queue, event, detail, first position, count of every record that speaks of messages."""
    assert octets[: len(records.BROKER_MAGIC)] == records.BROKER_MAGIC
    names: dict[int, str] = {}
    found: list[Run] = []
    at = records.RECORD_SIZE
    while at < len(octets):
        _, event, detail, _, name, first, count, _ = records.RECORD.unpack_from(octets, at)
        at += records.RECORD_SIZE
        if event == records.NAME:
            if not detail & records.IS_PUBLISHER:
                names[name] = octets[at : at + count].decode()
            at += -(-count // records.RECORD_SIZE) * records.RECORD_SIZE
        elif event not in {records.STARTED, records.SEQUENCES}:
            found.append((names[name].partition("\0")[2], event, detail, first, count))
    return found


def read_published(octets: bytes) -> list[Published]:
    """Who published what: nobody, or as the records say."""
    names: dict[int, tuple[str, int]] = {0: ("", 0)}
    found: list[Published] = []
    begin = 0
    at = records.RECORD_SIZE
    while at < len(octets):
        _, event, detail, publisher, name, first, count, sequence = records.RECORD.unpack_from(
            octets, at
        )
        at += records.RECORD_SIZE
        if event == records.NAME:
            if detail & records.IS_PUBLISHER:
                names[name] = (octets[at : at + count].decode(), first)
            at += -(-count // records.RECORD_SIZE) * records.RECORD_SIZE
        elif event == records.ENQUEUED:
            text, high = names[publisher]
            begin = (high << 32) + sequence
            sequences = list(range(begin, begin + count)) if publisher else []
            found.append((text, first, sequences))
            if detail & records.HAS_SEQUENCES:
                sequences.clear()
        elif event == records.SEQUENCES:
            halves = struct.unpack_from("<16H", octets, at - records.RECORD_SIZE)
            listed = [half for place, half in enumerate(halves) if place != 4][:detail]
            found[-1][2].extend(begin + ahead for ahead in listed)
    return found


class Book:
    """A broker whose messages are written down."""

    def __init__(self, broker: Broker, **limits: int) -> None:
        self.broker = broker
        self.ledger = Ledger(broker.state, broker.disk, WALL, **limits)

    def tick(self) -> None:
        self.broker.tick()
        self.ledger.end_of_tick(WALL + self.broker.now)

    def publish(self, queue: str, publisher: Publisher, *sequences: int) -> None:
        for sequence in sequences:
            sent = message(b"x")
            sent.publisher = publisher
            sent.sequence = sequence
            assert self.broker.vhost.queue(queue).enqueue(sent, self.broker.now)

    def published(self) -> list[Published]:
        return [run for octets in self.files() for run in read_published(octets)]

    def routed(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for name, event, _, _, count in self.runs():
            if event == records.ROUTED:
                counts[name.replace("\0", " ")] = counts.get(name.replace("\0", " "), 0) + count
        return counts

    def files(self) -> list[bytes]:
        assert isinstance(self.broker.disk, MemoryDisk)
        files = self.broker.disk.files
        return [bytes(files[name].content) for name in sorted(files) if is_ledger(name)]

    def runs(self) -> list[Run]:
        return [run for octets in self.files() for run in read(octets)]


class Named(Publisher):
    """A publisher whose client has given it a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def identity(self) -> str:
        return f"/\0{self._name}" if self._name else ""


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


def test_after_a_restart_it_says_what_was_in_a_priority_queue() -> None:
    first = Book(Broker(limits=ROOMY))
    first.broker.declare("q", arguments={"x-max-priority": 3})
    first.broker.put("q", *[b"x"] * 10)
    first.tick()
    second = Book(first.broker.restarted())
    assert read(second.files()[-1]) == [("q", records.RESTORED, 0, 1, 10)]


def test_messages_that_move_into_a_lease_are_leased_and_not_acknowledged() -> None:
    book = Book(Broker(limits=ROOMY))
    book.broker.declare("q")
    book.broker.put("q", *[b"x"] * 5)
    book.tick()
    take_lease(book.broker.vhost, LeaseRequest("q", "job", 1, 3), book.broker.now)
    book.tick()
    assert [run for run in book.runs() if run[0] == "q"] == [
        ("q", records.ENQUEUED, 1, 1, 5),
        ("q", records.DELIVERED, 0, 1, 3),
        ("q", records.LEASED, 0, 1, 3),
    ]


def test_a_lease_of_an_empty_queue_is_no_event() -> None:
    book = Book(Broker(limits=ROOMY))
    book.broker.declare("q")
    take_lease(book.broker.vhost, LeaseRequest("q", "job", 1), book.broker.now)
    book.tick()
    assert book.runs() == []


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


def test_who_published_is_written_with_what_it_will_be_confirmed_as() -> None:
    book = Book(Broker(limits=ROOMY))
    book.broker.declare("q")
    first, second = Named("one/1"), Named("two/1")
    book.publish("q", first, *range(1, 101))
    book.publish("q", second, *range(1, 11))
    book.broker.put("q", b"from nobody")
    book.tick()
    book.publish("q", first, 101, 102)
    book.tick()
    assert book.published() == [
        ("/\0one/1\0001", 1, list(range(1, 101))),
        ("/\0two/1\0002", 101, list(range(1, 11))),
        ("", 111, []),
        ("/\0one/1\0001", 112, [101, 102]),
    ]


def test_a_publisher_without_a_name_costs_nothing() -> None:
    book = Book(Broker(limits=ROOMY))
    book.broker.declare("q")
    before = len(book.files()[-1])
    book.publish("q", Named(""), 1, 3, 5)
    book.tick()
    name = 2 * records.RECORD_SIZE
    assert len(book.files()[-1]) == before + name + records.RECORD_SIZE
    assert book.published() == [("", 1, [])]


def test_sequences_with_gaps_are_listed_and_very_many_make_another_run() -> None:
    book = Book(Broker(limits=ROOMY))
    book.broker.declare("a")
    book.broker.declare("b")
    publisher = Named("one/1")
    # One goes to a, the next to b, and so on; above 32 bits as below.
    begin = (1 << 32) - 300
    sequences = list(range(begin, begin + 2 * SEQUENCES_MAX + 20))
    for at in range(0, len(sequences), 2):
        book.publish("a", publisher, sequences[at])
        book.publish("b", publisher, sequences[at + 1])
    book.tick()
    runs = book.published()
    of_a = [run for run in runs if run[2][0] % 2 == 0]
    assert [sequence for run in of_a for sequence in run[2]] == sequences[::2]
    assert [sequence for run in runs if run not in of_a for sequence in run[2]] == sequences[1::2]
    assert [len(run[2]) for run in of_a] == [SEQUENCES_MAX, 10]
    # Listed, and not a record for each message.
    assert len(book.runs()) == 4


def test_a_long_row_before_the_first_gap_is_a_run_of_its_own() -> None:
    book = Book(Broker(limits=ROOMY))
    book.broker.declare("q")
    publisher = Named("one/1")
    book.publish("q", publisher, *range(1, SEQUENCES_MAX + 2), 9000, 9001, 9003, 75_000)
    book.tick()
    assert [run[1:] for run in book.published()] == [
        (1, list(range(1, SEQUENCES_MAX + 2))),
        (SEQUENCES_MAX + 2, [9000, 9001, 9003]),
        # Too far from the first.
        (SEQUENCES_MAX + 5, [75_000]),
    ]


def test_a_message_that_was_delayed_may_come_behind_later_ones() -> None:
    book = Book(Broker(limits=ROOMY))
    book.broker.declare("q")
    book.publish("q", Named("one/1"), 5, 6, 8, 1, 2, 9)
    book.tick()
    assert [run[1:] for run in book.published()] == [(1, [5, 6, 8]), (4, [1, 2, 9])]


def test_publishers_are_named_again_in_every_file() -> None:
    book = Book(Broker(limits=ROOMY), file_bytes_max=400, files_max=3)
    book.broker.declare("q")
    publisher = Named("one/1")
    for sequence in range(1, 41):
        book.publish("q", publisher, sequence)
        book.tick()
    assert len(book.files()) == 3
    last = book.published()
    assert {name for name, _, _ in last} == {"/\0one/1\0001"}
    assert [run[2] for run in last] == [[run[1]] for run in last]


def test_what_is_published_where_is_counted_once_a_second() -> None:
    book = Book(Broker(limits=ROOMY))
    for key, count in (("eu.paris", 5), ("us.nyc", 1), ("eu.paris", 2)):
        for _ in range(count):
            book.ledger.route("/", "topics", key).count += 1
    book.tick()
    assert book.routed() == {}
    book.ledger.sweep(WALL + 999, False)
    assert book.routed() == {}
    book.ledger.sweep(WALL + 1000, False)
    assert book.routed() == {"topics eu.paris": 7, "topics us.nyc": 1}
    book.ledger.route("/", "topics", "eu.paris").count += 1
    # A clock that was set back does not stop it.
    book.ledger.sweep(WALL + 500, False)
    book.ledger.sweep(WALL + 900, False)
    assert book.routed()["topics eu.paris"] == 8


def test_routes_do_not_write_what_the_journal_does_not_have_yet() -> None:
    book = Book(Broker(limits=ROOMY))
    book.broker.declare("q")
    book.tick()
    book.broker.put("q", b"x")
    book.ledger.route("/", "", "q").count += 1
    book.ledger.sweep(WALL + 250, True)
    assert book.runs() == []
    book.tick()
    assert [run[1] for run in book.runs()] == [records.ROUTED, records.ENQUEUED]


def test_unbounded_routing_keys_share_lines_and_a_busy_one_gets_its_own_again() -> None:
    book = Book(Broker(limits=ROOMY), routes_max=3)
    for number in range(50):
        book.ledger.route("/", "topics", f"user.{number}").count += 1
    for number in range(20):
        book.ledger.route("/", "other", f"{number}.x").count += 1
    book.ledger.sweep(WALL + 250, True)
    assert book.routed() == {
        "topics user.0": 1,
        "topics user.1": 1,
        "topics user.2": 1,
        "topics user.#": 47,
        "other 0.#": 1,
        "other 1.#": 1,
        "other #": 18,
    }
    generation = book.broker.vhost.generation
    book.ledger.sweep(WALL + RENEWED_MS, True)
    # Who has kept a line asks again.
    assert book.broker.vhost.generation > generation
    book.ledger.route("/", "topics", "user.49").count += 1
    book.ledger.sweep(WALL + RENEWED_MS + 250, True)
    assert book.routed()["topics user.49"] == 1


def test_routes_are_named_again_in_every_file() -> None:
    book = Book(Broker(limits=ROOMY), file_bytes_max=400, files_max=3)
    route = book.ledger.route("/", "topics", "eu")
    for number in range(40):
        route.count += 1
        book.ledger.sweep(WALL + number, True)
    assert len(book.files()) == 3
    assert set(book.routed()) == {"topics eu"}
