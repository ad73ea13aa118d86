"""What members of a cluster write into their ledgers, so that an audit can follow each message."""

from penstock.broker.ledger.ledger import Ledger, is_ledger
from penstock.broker.message import Message
from penstock.formats import ledger_records as records
from penstock.formats.replication_id import first_id
from tests.broker.store.doubles import WALL, message
from tests.ha.replica_doubles import Member, joined, pair, ticked

CLUSTER = "c1"
MEMBERS = ["a", "b", "c"]
Told = tuple[int, int, int, int]


class Book:
    """The ledger of a member, which the test ticks as a node does."""

    def __init__(self, member: Member, file_bytes_max: int = 1 << 20) -> None:
        self.member = member
        self.ledger = Ledger(member.state, member.disk, WALL, file_bytes_max)
        self.ledger.is_member(CLUSTER, "b", MEMBERS)

    def tick(self, committed: int | None = None) -> None:
        """All of the journal is committed, or what is said."""
        self.member.tick()
        self.end_of_tick(committed)

    def end_of_tick(self, committed: int | None = None) -> None:
        written = self.member.journal.position
        self.ledger.committed(written, written if committed is None else committed)
        self.ledger.end_of_tick(WALL + self.member.now)

    def files(self) -> list[bytes]:
        files = self.member.disk.files
        return [bytes(files[name].content) for name in sorted(files) if is_ledger(name)]

    def told(self) -> list[Told]:
        """Event, detail, first and count of every record of the last file."""
        octets = self.files()[-1]
        found: list[Told] = []
        at = records.RECORD_SIZE
        while at < len(octets):
            _, event, detail, _, _, first, count, _ = records.RECORD.unpack_from(octets, at)
            at += records.RECORD_SIZE
            if event == records.NAME:
                at += -(-count // records.RECORD_SIZE) * records.RECORD_SIZE
                count = 0
            found.append((event, detail, first, count))
        return found

    def about_messages(self) -> list[Told]:
        aside = {records.NAME, records.STARTED, records.ROOT, records.COMMITTED}
        return [told for told in self.told() if told[0] not in aside]

    def marks(self) -> list[tuple[int, int]]:
        return [told[2:] for told in self.told() if told[0] == records.COMMITTED]


def expiring(body: bytes) -> Message:
    return message(body, expiration="1")


def test_a_backup_writes_whose_ledger_it_is_and_nothing_about_messages() -> None:
    root, backup = pair()
    root.put("q", b"one", b"two")
    ticked(root, backup)
    book = Book(backup.restarted())
    follower = book.member
    joined(follower, root)
    root.take("q")
    ticked(root, follower)
    book.tick()
    assert [told[:2] for told in book.told()] == [
        (records.STARTED, 0),
        (records.NAME, records.IS_MEMBER),
    ]
    assert b"c1\0b\0a,b,c" in book.files()[-1]


def test_a_new_root_says_whom_it_follows_and_what_its_queues_hold() -> None:
    root, backup = pair()
    root.put("q", b"one", b"two", b"three")
    ticked(root, backup)
    book = Book(backup)
    backup.promote(4)
    book.tick()
    backup.put("q", b"four")
    book.tick()
    number = root.vhost.queue("q").number
    assert number > 0
    told = [told for told in book.told() if told[0] != records.COMMITTED][2:]
    assert told == [
        (records.NAME, records.IS_MEMBER, 0, 0),
        (records.ROOT, 0, 4, 1),
        (records.NAME, records.IS_DURABLE, number, 0),
        (records.RESTORED, 0, first_id(1), 3),
        (records.ENQUEUED, 1, first_id(4), 1),
    ]


def test_a_queue_that_is_declared_at_a_root_is_named_with_its_number() -> None:
    book = Book(Member())
    book.member.promote(3)
    book.member.declare("q")
    book.tick()
    names = [told for told in book.told() if told[:2] == (records.NAME, records.IS_DURABLE)]
    assert names == [(records.NAME, records.IS_DURABLE, book.member.vhost.queue("q").number, 0)]
    assert names[0][2] == first_id(3)


def test_what_has_expired_when_a_root_begins_was_inherited_before() -> None:
    root, backup = pair()
    assert root.vhost.queue("q").enqueue(expiring(b"late"), root.now)
    ticked(root, backup)
    book = Book(backup)
    backup.now += 1000
    backup.promote(2)
    book.tick()
    expired = records.REASONS.index("expired")
    assert book.about_messages() == [
        (records.RESTORED, 0, first_id(1), 1),
        (records.DROPPED, expired, first_id(1), 1),
    ]


def test_a_root_says_how_much_is_committed_before_it_confirms_and_no_more_than_needed() -> None:
    book = Book(Member())
    book.member.promote(2)
    book.member.declare("q")
    book.tick()
    position = book.member.journal.position
    book.member.put("q", b"one")
    book.tick(committed=position)
    later = book.member.journal.position
    assert book.marks() == [(position, 0), (later, later - position)]
    book.end_of_tick(committed=position)
    assert len(book.marks()) == 2
    # A tick with nothing but the news that everybody has it.
    book.end_of_tick(committed=later)
    book.end_of_tick(committed=later)
    assert book.marks()[2:] == [(later, 0)]


def test_a_file_that_is_begun_in_a_term_says_so() -> None:
    book = Book(Member(), file_bytes_max=1000)
    book.member.promote(2)
    book.member.declare("q")
    for _ in range(20):
        book.member.put("q", b"x")
        book.tick()
    assert len(book.files()) > 1
    number = book.member.vhost.queue("q").number
    assert book.told()[:3] == [
        (records.NAME, records.IS_MEMBER, 0, 0),
        (records.ROOT, records.CONTINUES, 2, 0),
        (records.NAME, records.IS_DURABLE, number, 0),
    ]


def test_a_root_that_steps_down_writes_no_more() -> None:
    book = Book(Member())
    root = book.member
    root.promote(1)
    root.declare("q")
    book.tick()
    backup = Member()
    joined(backup, root)
    root.put("q", b"one")
    root.tick()
    root.demote()
    book.end_of_tick()
    assert book.told()[-1] == (records.ENQUEUED, 1, first_id(1), 1)
    before = len(book.files()[-1])
    backup.promote(2)
    backup.put("q", b"two")
    backup.tick()
    joined(root, backup)
    book.tick()
    assert len(book.files()[-1]) == before
