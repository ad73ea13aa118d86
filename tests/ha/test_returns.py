"""How often messages came back: backups count as their root does, whatever happens to the records."""

import pytest

from penstock.broker.store.definition_records import Change, encode_change
from penstock.broker.topology import DeleteQueue, NoteReturns
from penstock.ha.replica_operation import BadOperation, read_change, read_operation
from tests.ha.replica_doubles import Member, joined, pair, ticked

COUNT = 30


@pytest.fixture(params=[{"x_queue_type": "quorum"}, {}, {"x_max_priority": 3}], ids=str)
def members(request: pytest.FixtureRequest) -> tuple[Member, Member]:
    """More messages than stay in memory; every third came back, some of them twice."""
    root, backup = pair()
    root.declare("r", **request.param)
    root.put("r", *[b"%d" % number for number in range(COUNT)])
    ticked(root, backup)
    for step in (3, 6):
        for _ in range(COUNT):
            root.get("r")
        for number, (queue, entry) in enumerate(root.out):
            queue.requeue([entry], root.now, failed=number % step == 0)
        root.out.clear()
        ticked(root, backup)
    return root, backup


def wanted(number: int) -> int:
    return (number % 3 == 0) + (number % 6 == 0)


def check(member: Member) -> None:
    """It is the root."""
    for number in range(COUNT):
        entry = member.get("r")
        assert entry.message.body == b"%d" % number
        assert entry.delivery_count == wanted(number)


def test_a_new_root_continues_to_count(members: tuple[Member, Member]) -> None:
    _, backup = members
    backup.promote(2)
    backup.tick()
    check(backup)


def test_a_root_that_stepped_down_and_came_back_continues_to_count(
    members: tuple[Member, Member],
) -> None:
    root, _ = members
    root.demote()
    root.promote(2)
    root.tick()
    check(root)


def test_a_restarted_backup_continues_to_count(members: tuple[Member, Member]) -> None:
    _, backup = members
    backup.flushed()
    again = backup.restarted()
    assert again.digest() == backup.digest()
    again.promote(2)
    again.tick()
    check(again)


def test_a_backup_that_joins_anew_counts_what_it_had_and_what_it_gets(
    members: tuple[Member, Member],
) -> None:
    root, backup = members
    new = Member()
    for member in (new, backup):
        joined(member, root)
        assert member.digest() == root.digest()
        member.flushed()
        again = member.restarted()
        assert again.digest() == root.digest()


def test_counts_outlive_the_segments_in_which_they_were_recorded(
    members: tuple[Member, Member],
) -> None:
    root, backup = members
    first = root.journal.segments()[0]
    # What is dead makes room, and with it go the old records.
    for _ in range(40):
        root.put("q", b"x" * 100)
        root.tick()
        root.take("q")
        root.tick()
        root.flushed()
    root.rest()
    backup.follow(root)
    backup.rest()
    assert root.journal.segments()[0] > first
    assert backup.journal.segments()[0] > first
    for member in (root, backup):
        again = member.restarted()
        assert again.digest() == root.digest()
    again.promote(2)
    again.tick()
    check(again)


def test_what_is_out_with_consumers_keeps_its_count_in_a_snapshot(
    members: tuple[Member, Member],
) -> None:
    root, _ = members
    for _ in range(COUNT):
        root.get("r")
    root.tick()
    new = Member()
    joined(new, root)
    new.promote(2)
    new.tick()
    check(new)


@pytest.mark.parametrize("row", [[0, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1], [1, 1, "1"], 1])
def test_a_note_that_cannot_be_is_refused(row: object) -> None:
    text = encode_change(Change("/", NoteReturns("q", ((7, 8, 9),)), 0))
    assert read_change(text).command == NoteReturns("q", ((7, 8, 9),))
    with pytest.raises(BadOperation):
        read_change(text.replace(b"[7, 8, 9]", str(row).replace("'", '"').encode()))


def test_returns_of_one_tick_are_one_note() -> None:
    """Whatever a consumer gives back one by one; what is deleted or acknowledged since is left out."""
    root, backup = pair()
    root.declare("r", x_queue_type="quorum")
    root.declare("other")
    for name in ("r", "other"):
        root.put(name, b"1", b"2", b"3")
    ticked(root, backup)
    entries = [root.get("r") for _ in range(3)]
    other = root.get("other")
    root.out.clear()
    for _ in range(2):
        for entry in entries:
            root.vhost.queue("r").requeue([entry], root.now)
        for _ in range(3):
            root.get("r")
        root.out.clear()
    root.vhost.queue("r").requeue(entries[1:], root.now)
    root.vhost.queue("r").acknowledge(entries[0])
    root.vhost.queue("other").requeue([other], root.now)
    root.apply(DeleteQueue("other"))
    ticked(root, backup)
    changes = read_operation(root.stream.operations[-1]).changes
    [note] = [one.command for one in changes if isinstance(one.command, NoteReturns)]
    assert note == NoteReturns("r", ((entries[1].position, 2, 3),))
    assert not root.state.shared.returned
