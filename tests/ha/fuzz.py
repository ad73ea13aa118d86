"""A seeded fuzzer of replication: what a root and its backup say to one another, damaged.

Each input is a recorded conversation of which some messages were changed, and an operation that was changed
has its checksum again, as one of a hostile or defective root has. It is heard by a backup over a real store,
or by a primary. Neither may raise; what is refused ends the line with a reason; the backup's books stay
right; its store starts again with the same content; and the next root brings it up to date.

Longer runs: `python -m tests.ha.fuzz SEED COUNT`.
"""

from __future__ import annotations

from random import Random
from struct import pack_into
from zlib import crc32

from penstock.broker.store import records
from penstock.broker.store.definition_records import Change, decode_snapshot, encode_change
from penstock.broker.topology import (
    AddVhost,
    BindExchange,
    BindQueue,
    BrokerCommand,
    ChangeQueueArguments,
    ChangeStream,
    ClearParameter,
    ClearPolicy,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    NoteConsumer,
    NoteReturns,
    NumberFrom,
    OpenDelayLine,
    PutUser,
    SetOperatorPolicy,
    SetParameter,
    SetPermissions,
    SetPolicy,
    SetVhostLimits,
    UnbindQueue,
    VhostCommand,
)
from penstock.ha import messages
from penstock.ha.backup import Backup
from penstock.ha.stored_replica import StoredReplica
from tests.broker.doubles import CountingEntropy
from tests.broker.store.doubles import message
from tests.ha.replica_doubles import Member, audit
from tests.ha.stored_members import Cable, Follower, Root
from tests.wire.damage import main

Message = tuple[int, bytes]

# What a field may be told to be: the ends of its type, and of ids.
EDGES = (0, 1, 0xFF, 0xFFFF_FFFF, 1 << 41, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, (1 << 64) - 1)
KINDS = (0, messages.JOIN, messages.RESUME, messages.SYNC, messages.PIECE, messages.OP, 7)
# Of a batch that a damaged message may make a backup write.
JOURNAL_BYTES_MAX = 1 << 20


def busy(root: Root, number: int) -> None:
    """Two ticks of clients: queues of all kinds get messages and lose some."""
    member = root.member
    member.put("q", *[b"%d" % (10 * number + each) for each in range(4)])
    member.put("priorities", b"high", priority=5)
    member.put("log", b"a%d" % number, b"b")
    shared = message(b"fanned")
    for queue in ("q", "r"):
        assert member.vhost.queue(queue).enqueue(shared, member.now)
    root.tick()
    member.take("q", 2)
    if number % 3 == 0:
        entry = member.get("r")
        member.out.clear()
        member.vhost.queue("r").requeue([entry], member.now)
    if number % 4 == 1:
        member.apply(DeclareQueue(f"new{number}", durable=True))
        member.put(f"new{number}", b"x")
    root.tick()


def declared(root: Root) -> None:
    member = root.member
    member.declare("q")
    member.declare("r")
    member.declare("priorities", x_max_priority=9)
    member.declare("log", x_queue_type="stream")
    member.apply(DeclareExchange("fan", "fanout", durable=True))
    member.apply(BindQueue("q", "fan"))
    member.apply(SetPolicy("p", "^none", {"max-length": 3}))
    root.tick()


class Recording:
    """A backup joins by a SYNC in the middle of traffic, and follows it."""

    def __init__(self) -> None:
        self.root = Root(Member(), 1, ["b"])
        declared(self.root)
        for number in range(4):
            busy(self.root, number)
        self.down: list[Message] = []
        self.up: list[Message] = []
        follower = Follower("b", Member(), self.root)
        for number in range(4, 12):
            self._pump(follower, 6)
            busy(self.root, number)
        for _ in range(200):
            self.root.tick()
            self._pump(follower, 1000)
        assert follower.member.digest() == self.root.member.digest()
        assert follower.backup.is_synced

    def _pump(self, follower: Follower, count: int) -> None:
        up, down = follower.up.sent[:count], follower.down.sent[:count]
        self.up.extend(up)
        for each in up:
            del follower.up.sent[0]
            heard_by_root(self.root, each, follower.down)
        self.down.extend(down)
        for kind, octets in down:
            del follower.down.sent[0]
            follower.backup.received(kind, octets, follower.member.now)
        follower.flushed()


def heard_by_root(root: Root, said: Message, line: Cable) -> None:
    kind, octets = said
    if kind == messages.JOIN:
        root.primary.joined("b", octets, line, root.member.now)
    else:
        root.primary.acked("b", octets, root.member.now)


def definitions(member: Member) -> list[bytes]:
    changes, _ = decode_snapshot(member.replica.values())
    return sorted([encode_change(change) for change in changes])


def with_checksum(said: Message) -> Message:
    """An operation that says of itself that it is whole, at its outside and inside."""
    kind, octets = said
    if kind != messages.OP or len(octets) < messages.OP_HEAD_SIZE:
        return said
    made = bytearray(octets)
    pack_into(">I", made, 20, crc32(octets[messages.OP_HEAD_SIZE :]))
    return kind, bytes(made)


def altered(random: Random, said: Message) -> Message:
    """One message: octets changed, added, removed, or a field set to an end of what it can be."""
    kind, octets = said
    data = bytearray(octets)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(data) + 1)
        choice = random.randrange(8)
        if choice <= 1 and at < len(data):
            data[at] = random.randrange(256)
        elif choice == 2 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif choice == 3:
            data[at:at] = random.randbytes(random.choice((1, 4, 12, 40)))
        elif choice == 4:
            del data[at : at + random.choice((1, 4, 12, 40))]
        elif choice == 5:
            data[at:at] = data[at : at + random.choice((12, 24, 60))]
        elif len(data) >= 8:
            size, form = random.choice(((4, ">I"), (8, ">Q")))
            at = random.randrange(len(data) - size + 1)
            pack_into(form, data, at, random.choice(EDGES) & ((1 << 8 * size) - 1))
    if random.random() < 0.03:
        kind = random.choice(KINDS)
    return kind, bytes(data)


def aimed(random: Random, said: Message) -> Message:
    """An operation or a piece in which the ids of one record are others: those of another record, or an
    end of what an id can be.
    """
    kind, octets = said
    starts = record_starts(kind, octets)
    if not starts:
        return altered(random, said)
    data = bytearray(octets)
    at = random.choice(starts)
    first = at + records.HEAD_SIZE
    place = first + (9 if data[at] == records.MESSAGE else 0) + random.choice((0, 8, 16))
    other = random.choice(starts) + records.HEAD_SIZE + random.choice((0, 8, 9, 16, 17))
    value = octets[other : other + 8]
    if random.random() < 0.5 or len(value) < 8:
        value = random.choice(EDGES).to_bytes(8, "big")
    if place + 8 <= len(data):
        data[place : place + 8] = value
    return kind, bytes(data)


def redefined(random: Random, said: Message) -> Message:
    """An operation with a definition in it that may fit, or may not; or a message that is altered."""
    kind, octets = said
    if kind != messages.OP:
        return altered(random, said)
    begin = messages.OP_HEAD_SIZE
    head = records.OperationRecord(octets, begin)
    pieces: list[bytes] = []
    for _ in range(random.choice((1, 1, 2, 3))):
        records.append_text(pieces, records.DEFINITION, encode_change(some_change(random)))
    added = b"".join(pieces)
    kept = octets[begin + records.OPERATION_SIZE :]
    whole = added + kept if random.random() < 0.5 else kept + added
    number = records.operation_record(head.epoch, head.k, len(whole))
    return kind, octets[:begin] + number + whole


def some_change(random: Random) -> Change:
    """Of what there is, and of what there is not."""
    name = random.choice(
        ("q", "r", "priorities", "log", "new1", "new5", "fan", "x", "", "amq.direct")
    )
    other = random.choice(("q", "log", "fan", "x", "amq.fanout", ""))
    user = random.choice(("guest", "nobody"))
    vhost = random.choice(("/", "v"))
    value: object = random.choice((3, "stream", ""))
    arguments: dict[str, object] = {}
    if random.random() < 0.6:
        arguments["x-queue-type" if value == "stream" else "x-max-length"] = value
    is_durable = random.random() < 0.8
    commands: list[VhostCommand | BrokerCommand] = [
        DeclareQueue(name, is_durable, random.random() < 0.1, arguments=arguments),
        DeclareQueue(name, is_durable, arguments=arguments),
        DeleteQueue(name, if_empty=random.random() < 0.2),
        ChangeQueueArguments(name, arguments),
        BindQueue(name, other, random.choice(("", "3"))),
        UnbindQueue(name, other, random.choice(("", "3"))),
        BindExchange(name, other, "3"),
        DeclareExchange(name, random.choice(("fanout", "direct", "?")), is_durable),
        DeleteExchange(name, random.random() < 0.2),
        SetPolicy(random.choice("ps"), random.choice(("", "(")), {"max-length": 5}),
        ClearPolicy(random.choice("ps")),
        SetOperatorPolicy("o", "", {random.choice(("expires", "unknown")): 9}),
        SetVhostLimits(random.choice((-1, 0, 3, 9))),
        SetParameter(random.choice(("c", "policy", "queue-replica")), name, {}),
        ClearParameter("c", name),
        OpenDelayLine(),
        NoteConsumer(name),
        NoteReturns(name, ((1, random.choice((1, 1 << 40)), 1 << random.randrange(70)),)),
        ChangeStream(name, {"c": 1}, {"p": 2}, {}, -1, (1,), random.choice(((), (0,)))),
        AddVhost(vhost, "", (), random.choice(("", "classic", "?"))),
        DeleteVhost(vhost),
        PutUser(user, random.choice(("", "?"))),
        DeleteUser(user),
        SetPermissions(user, vhost, "", random.choice((".*", "(")), ""),
        NumberFrom(random.choice((0, 1, 2))),
    ]
    command = random.choice(commands)
    number = random.choice((0, 0, 0, 1 << 50, (1 << 50) + random.randrange(3), 1 << 40 | 1))
    if isinstance(command, (DeclareQueue, OpenDelayLine)) and random.random() < 0.6:
        number = random.randrange(1 << 50, 1 << 51)
    return Change(None if isinstance(command, BrokerCommand) else vhost, command, number)


def record_starts(kind: int, octets: bytes) -> list[int]:
    """Of messages, dequeued messages and appends."""
    if kind not in {messages.OP, messages.PIECE}:
        return []
    is_piece = kind == messages.PIECE
    at = messages.PIECE_HEAD_SIZE if is_piece else messages.OP_HEAD_SIZE + records.OPERATION_SIZE
    found: list[int] = []
    while at + records.HEAD_SIZE <= len(octets):
        if octets[at] in {records.MESSAGE, records.DEQUEUED, records.APPENDED}:
            found.append(at)
        at += records.size_at(octets, at)
    return found


def damaged(random: Random, said: list[Message]) -> list[Message]:
    """The conversation with some messages altered, dropped, doubled or swapped."""
    found = said[:]
    for _ in range(random.choice((1, 1, 1, 2))):
        at = random.randrange(len(found))
        choice = random.randrange(12)
        if choice == 0:
            del found[at]
        elif choice == 1:
            found.insert(at, found[at])
        elif choice == 2:
            other = random.randrange(len(found))
            found[at], found[other] = found[other], found[at]
        else:
            change = random.choice((aimed, aimed, altered, altered, redefined))
            made = change(random, found[at])
            found[at] = with_checksum(made) if random.random() < 0.8 else made
    return found


class Fuzzer:
    """Hears damaged conversations, one after the other."""

    def __init__(self) -> None:
        self.recording = Recording()
        # The root of the next epoch, which has everything.
        self._next = Root(self.recording.root.member.restarted(), 2, [])
        self._next.tick()
        # How many lines were ended, with what reasons.
        self.reasons: set[str] = set()

    def check(self, seed: int, number: int) -> None:
        random = Random(seed << 32 | number)
        try:
            if random.random() < 0.8:
                self.hear_as_backup(random, damaged(random, self.recording.down))
            else:
                self.hear_as_root(random, damaged(random, self.recording.up))
        except BaseException as error:
            error.add_note(f"tests.ha.fuzz.Fuzzer().check({seed}, {number})")
            raise

    def hear_as_backup(self, random: Random, said: list[Message]) -> Member:
        member = Member()
        backup = Backup(StoredReplica(member.replica, member.now), CountingEntropy())
        line = Cable()
        backup.follow(1, line)
        for kind, octets in said:
            backup.received(kind, octets, member.now)
            if random.random() < 0.2:
                member.flushed()
                backup.flushed(member.now)
            if line.reason:
                self.reasons.add(line.reason)
                assert not backup.is_following
                break
        backup.end()
        member.flushed()
        assert member.journal.position < JOURNAL_BYTES_MAX
        audit(member)
        again = member.restarted()
        assert again.digest() == member.digest()
        self._brought_up_to_date(again)
        return member

    def _brought_up_to_date(self, member: Member) -> None:
        root = self._next
        root.primary.forget("b")
        follower = Follower("b", member, root)
        try:
            follower.catch_up()
        except AssertionError:
            # It has taken other messages for those of a stream, which only an operator can judge.
            if follower.up.reason.endswith("replace this server"):
                return
            raise
        assert follower.backup.is_synced
        assert member.replica.ids() == root.member.replica.ids()
        assert definitions(member) == definitions(root.member)
        audit(member)

    def hear_as_root(self, random: Random, said: list[Message]) -> None:
        root = self.recording.root
        root.primary.forget("b")
        line = Cable()
        for each in said:
            heard_by_root(root, each, line)
            if random.random() < 0.3:
                root.tick()
            if line.reason:
                self.reasons.add(line.reason)
                break
        root.tick()
        # It serves another one as before.
        root.primary.forget("b")
        follower = Follower("b", Member(), root)
        follower.catch_up()
        assert follower.member.digest() == root.member.digest()


def fuzzed(seed: int, count: int) -> Fuzzer:
    fuzzer = Fuzzer()
    for number in range(count):
        fuzzer.check(seed, number)
    return fuzzer


def fuzz(seed: int, count: int) -> None:
    fuzzed(seed, count)


if __name__ == "__main__":
    main(fuzz)
