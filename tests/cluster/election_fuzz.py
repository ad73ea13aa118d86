"""A seeded fuzzer of elections: what a peer with the cluster key may say, in any order.

One server hears messages of peers that keep no promises: kinds, epochs and records that belong together and
others that do not, from members, from strangers and from the store that a member had before. Time passes, and
an operator gives commands. It may refuse a message, and then nothing has changed. It may not raise anything
else, never goes back behind what it has promised, and starts again with the same promises.

Longer runs: `python -m tests.cluster.election_fuzz SEED COUNT`.
"""

from dataclasses import replace
from random import Random

from penstock.cluster.contradictions import Contradiction
from penstock.cluster.member import Member
from penstock.cluster.messages import (
    KIND_NAMES,
    RECORD,
    RECORD_OK,
    ROOT_OK,
    ControlMessage,
    encode_message,
)
from penstock.cluster.promises import open_promises
from penstock.cluster.record import EPOCH_MAX, VERSION_MAX, ClusterRecord
from penstock.formats.peer_limits import BadPeerMessage
from tests.cluster.doubles import CLUSTER_ID, TIMING, OneServer, bootstrap, record_of, store_id_of
from tests.wire.damage import main

MESSAGES_PER_INPUT = 60
PEERS = "bbccd"
KINDS = sorted(KIND_NAMES)
OTHER_CLUSTER = b"another cluster "[:16]


def record_near(random: Random, own: ClusterRecord) -> ClusterRecord:
    """The record of the server that hears it, or one that differs in some part."""
    record = own
    while random.random() < 0.6:
        choice = random.randrange(7)
        members = list(record.members)
        if choice == 0:
            version = random.choice((0, 1, own.version + 1, VERSION_MAX))
            record = replace(record, version=min(version, VERSION_MAX))
        elif choice == 1:
            epoch = random.choice((0, own.epoch + 1, own.epoch + random.randrange(9)))
            record = replace(record, epoch=min(epoch, EPOCH_MAX))
        elif choice == 2:
            names = [name for name in record.names() if random.random() < 0.7]
            record = replace(record, in_sync=tuple(names))
        elif choice == 3 and len(members) > 1:
            gone = members.pop(random.randrange(len(members)))
            in_sync = [name for name in record.in_sync if name != gone.name]
            record = replace(record, members=tuple(members), in_sync=tuple(in_sync))
        elif choice == 4 and record.find("e") is None:
            members.append(Member("e", "127.0.0.1:9000", store_id_of("e")))
            record = replace(record, members=tuple(members))
        elif choice == 5:
            at = random.randrange(len(members))
            store_id = random.choice((b"", store_id_of(members[at].name, 2)))
            members[at] = replace(members[at], store_id=store_id, may_be_root=random.random() < 0.5)
            record = replace(record, members=tuple(members))
        elif choice == 6 and random.random() < 0.1:
            record = replace(record, cluster_id=OTHER_CLUSTER)
    return record


class Fuzzer:
    """One server for each input. Counts what was refused, and in which roles it was."""

    def __init__(self) -> None:
        self.reasons: set[str] = set()
        self.roles: set[str] = set()
        self.contradictions = 0

    def check(self, seed: int, number: int) -> None:
        random = Random(seed << 32 | number)
        first = random.choice(
            (bootstrap(), bootstrap("abcd"), record_of(1, 1), record_of(3, 2, "abcd"))
        )
        server = OneServer("a", first, connected=random.choice(("bc", "b", "")))
        try:
            for _ in range(MESSAGES_PER_INPUT):
                self._step(random, server)
        except BaseException as error:
            error.add_note(f"tests.cluster.election_fuzz.Fuzzer().check({seed}, {number})")
            raise
        again = open_promises(server.disk)
        assert (again.epoch, again.record, again.voted_for, again.stores) == (
            server.promises.epoch,
            server.promises.record,
            server.promises.voted_for,
            server.promises.stores,
        )

    def _step(self, random: Random, server: OneServer) -> None:
        election = server.election
        promised = (election.epoch, election.record.order())
        choice = random.random()
        if choice < 0.25:
            server.wait(random.choice((50, 250, TIMING.stagger_ms, TIMING.elect_ms)))
        elif choice < 0.3:
            self._command(random, server)
        elif choice < 0.55:
            self._help(random, server)
        else:
            self._hear(random, server)
        self.roles.add(election.role)
        assert (election.epoch, election.record.order()) >= promised
        assert election.epoch >= election.record.epoch

    def _help(self, random: Random, server: OneServer) -> None:
        """What an honest peer answers, so that the server gets somewhere."""
        sent = [(name, message) for name, message in server.lines.sent if name in "bc"]
        server.lines.sent = []
        answers = {20: 21, 22: 23, 25: ROOT_OK, RECORD: RECORD_OK}
        for name, asked in sent:
            kind = answers.get(asked.kind)
            if kind is None or random.random() < 0.1:
                continue
            message = ControlMessage(kind, asked.cluster_id, asked.epoch)
            message.sent_at = asked.sent_at
            if kind == RECORD_OK and asked.record is not None:
                message.accepted = asked.record.order()
            elif kind != ROOT_OK:
                message.record = server.election.record
            self._say(server, name, store_id_of(name), message)

    def _command(self, random: Random, server: OneServer) -> None:
        election, now = server.election, server.now
        name = random.choice("abcd")
        random.choice(
            (
                lambda: election.hand_over(name, now),
                lambda: election.add_member("e", "127.0.0.1:9000", now),
                lambda: election.remove_member(name, now),
                lambda: election.replace_member(name, now),
                lambda: election.disable_root(name, now),
                lambda: election.enable_root(name, now),
            )
        )()

    def _hear(self, random: Random, server: OneServer) -> None:
        own = server.election
        kind = random.choice(KINDS)
        record = record_near(random, own.record)
        epoch = own.epoch + random.choice((0, 0, 0, 1, 1, -1, 2, random.randrange(50)))
        if random.random() < 0.01:
            epoch = EPOCH_MAX - random.randrange(2)
        if kind == RECORD and random.random() < 0.8:
            epoch = record.epoch
        message = ControlMessage(kind, CLUSTER_ID, min(max(epoch, 0), EPOCH_MAX), None)
        if 20 <= kind <= 25 or kind == RECORD:
            message.record = record
        message.sent_at = max(server.now + random.choice((0, -50, 1 << 40)), 0)
        message.committed_k = random.choice((-1, 0, 5, (1 << 63)))
        message.is_active = random.random() < 0.5
        message.granted = random.choice((0, 2, 255))
        message.accepted = random.choice((own.record.order(), (0, 0), (1 << 31, 1 << 31)))
        message.heir = random.choice(("a", "b", "nobody"))
        life = 2 if random.random() < 0.1 else 1
        name = random.choice(PEERS)
        self._say(server, name, store_id_of(name, life), message)

    def _say(self, server: OneServer, name: str, store_id: bytes, message: ControlMessage) -> None:
        election, promises = server.election, server.promises
        before = (election.role, election.root_name, promises.version, len(server.lines.sent))
        octets = encode_message(message)
        try:
            election.received(name, store_id, message.kind, octets, server.now)
        except BadPeerMessage as error:
            self.reasons.add(str(error))
            self.contradictions += isinstance(error, Contradiction)
            after = (election.role, election.root_name, promises.version, len(server.lines.sent))
            assert after == before


def fuzzed(seed: int, count: int) -> Fuzzer:
    fuzzer = Fuzzer()
    for number in range(count):
        fuzzer.check(seed, number)
    return fuzzer


def fuzz(seed: int, count: int) -> None:
    fuzzed(seed, count)


if __name__ == "__main__":
    main(fuzz)
