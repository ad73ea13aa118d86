"""Damaged and hostile replication does no harm (see tests.ha.fuzz), and what the fuzzer has found."""

from random import Random

import pytest

from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.store import records
from penstock.broker.store.definition_records import Change, encode_change
from penstock.broker.topology import AddVhost, ChangeStream, DeclareQueue, NoteReturns, SetPolicy
from penstock.ha.replica_operation import BadOperation, read_change
from tests.ha.fuzz import Fuzzer, fuzzed
from tests.ha.replica_doubles import Member, audit, held_of, pair, sync, wanted_of

SEEDS = range(1, 3)
INPUTS_PER_SEED = 250
# Of so many inputs at least this many kinds of refusals were seen: otherwise they do not get far.
REASONS_MIN = 30


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_replication_does_no_harm(seed: int) -> None:
    assert len(fuzzed(seed, INPUTS_PER_SEED).reasons) >= REASONS_MIN


def test_the_undamaged_conversation_makes_an_equal_backup() -> None:
    fuzzer = Fuzzer()
    root = fuzzer.recording.root
    backup = fuzzer.hear_as_backup(Random(1), fuzzer.recording.down)
    assert not fuzzer.reasons
    assert backup.digest() == root.member.digest()


def next_operation(member: Member, *pieces: bytes) -> bytes:
    epoch, k = member.replica.syn()
    content = b"".join(pieces)
    return records.operation_record(epoch, k + 1, len(content)) + content


def refuse(member: Member, reason: str, *pieces: bytes) -> None:
    before = member.digest()
    position = member.journal.position
    with pytest.raises(BadOperation, match=reason):
        member.replica.apply(next_operation(member, *pieces), member.now)
    assert (member.digest(), member.journal.position) == (before, position)
    audit(member)


def dequeued(number: int, first: int, count: int) -> bytes:
    pieces: list[bytes] = []
    records.append_dequeued(pieces, number, 0, [records.encode_range(first, count)])
    return b"".join(pieces)


def test_a_message_that_is_there_is_not_enqueued_again() -> None:
    root, backup = pair()
    root.put("q", b"one", b"two")
    root.tick()
    backup.follow(root)
    enqueues = root.stream.operations[-1][records.OPERATION_SIZE :]
    refuse(backup, "has one of the 2 messages", enqueues)
    member = Member()
    member.replica.finish(*root.replica.syn(), [], root.replica.values(), [], 1)
    refuse(member, "comes twice", enqueues, enqueues)


def test_what_was_not_enqueued_is_not_dequeued() -> None:
    """A start would take messages that come later for dequeued."""
    root, backup = pair()
    root.put("q", b"one")
    root.tick()
    backup.follow(root)
    number = root.vhost.queue("q").number
    [(first, _)] = root.replica.ids()[number]
    refuse(backup, "was not enqueued", dequeued(number, first, 2))
    refuse(backup, "not a valid range", dequeued(number, (1 << 62) - 1, 2))
    refuse(backup, "not a valid queue number", dequeued(1 << 62, 1, 1))


def test_a_second_queue_does_not_get_the_number_of_the_first() -> None:
    root, backup = pair()
    number = root.vhost.queue("q").number
    pieces: list[bytes] = []
    change = Change("/", DeclareQueue("other", durable=True), number)
    records.append_text(pieces, records.DEFINITION, encode_change(change))
    refuse(backup, "a second queue", *pieces)
    assert "other" not in backup.vhost.queues


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        encode_change(Change(None, AddVhost("v"), 1 << 62)),
        encode_change(Change("/", NoteReturns("q", ((1, 1 << 62, 1),)), 0)),
        encode_change(Change("/", ChangeStream("log", {"cursor": 1}, {}, {}), 0)).replace(
            b"1", b"[]"
        ),
        encode_change(Change("/", ChangeStream("log", {}, {}, {}, 0, (7,), (0,)), 0)).replace(
            b"7", b"{}"
        ),
        b'{"vhost": "/", "command": "DeleteQueue", "fields": {"$decimal": "x"}, "queue_number": 0}',
    ],
)
def test_a_definition_that_cannot_be_is_refused(text: bytes) -> None:
    with pytest.raises(BadOperation):
        read_change(text)


def test_definitions_of_a_sync_that_do_not_fit_one_another_are_refused() -> None:
    root, backup = pair()
    root.put("q", b"one")
    root.tick()
    assert sync(backup, root)
    assert held_of(backup) == wanted_of(root)
    before = backup.digest(), backup.journal.position
    target = sorted(root.replica.ids().items())
    policy = encode_change(Change("/", SetPolicy("p", "(", {"max-length": 1}), 0))
    number = root.vhost.queue("q").number
    double = encode_change(Change("/", DeclareQueue("r", durable=True), number))
    for text, reason in ((policy, "SetPolicy in the definitions"), (double, "two queues")):
        with pytest.raises(BadOperation, match=reason):
            backup.replica.finish(*root.replica.syn(), target, root.replica.values(), [text], 1)
        assert (backup.digest(), backup.journal.position) == before
    backup.replica.finish(*root.replica.syn(), target, root.replica.values(), [], 1)
    assert backup.digest() == root.digest()


def test_a_range_of_returns_costs_nothing_for_what_is_not_there() -> None:
    ready = ReplicaList()
    ready.note_returns(1, 1 << 40, 3)
    for position in (5, 9):
        ready.add_run(position, 2, 100 * position, 10)
    ready.remove_ranges([(6, 1)])
    ready.note_returns(10, 1 << 40, 4)
    assert ready.delivery_counts()[-1] == (10, 4)
    assert 6 not in dict(ready.delivery_counts())
