"""The cluster record: who the members are and which of them hold everything that was confirmed.

Records are ordered by (epoch, version). Record (0, 0) is the bootstrap record, which `penstock
cluster format` writes on every server with the same members.

**Store ids.** A member is its name together with its store id, so that a server that comes back
with an empty disk does not pass for the one that voted and acknowledged. The bootstrap record cannot
know the ids of the other servers. The rules:

- The winner of an election puts into its first record (the barrier) the ids of all members that it
  has heard, among them everybody who voted for it. Members that it has not heard keep an empty id
  and are left out of the in-sync set. When the root first hears one, it proposes a record with its
  id. An id in a record is replaced only by an operator's `penstock cluster replace`.
- A server with another id than the record has is a stranger: it may follow the root, but neither
  votes nor counts.
- While the record has no id of a member, each server goes by the id with which it heard that member
  first. It writes it down with its promises before anything depends on it (`Promises.counts`).

So a server has to lose its disk before the others have heard it to be taken for a new one. See the
decision record on store ids in `docs/adr`.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from penstock.cluster.member import Member, decode_member, encode_member, member_size
from penstock.formats.octets import Malformed, read_bytes, read_u8, read_u32, write_u32
from penstock.formats.peer_limits import BadPeerMessage

CLUSTER_ID_BYTES: Final = 16
# Epochs are part of replication ids, which have 22 bits for them: one election per second for 48
# days without a break. A server that has reached it does not campaign any more.
EPOCH_MAX: Final = (1 << 22) - 1
# Each member waits for all the others' disks; more servers than this make a cluster slower, not
# safer. A record with more is refused.
MEMBERS_MAX: Final = 15
VERSION_MAX: Final = (1 << 32) - 1

_HEAD_BYTES: Final = 8 + CLUSTER_ID_BYTES + 1


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """Held by the promises of every server; never changed, only replaced."""

    epoch: int
    version: int
    cluster_id: bytes
    # Most senior first.
    members: tuple[Member, ...]
    # Names of members, most senior first.
    in_sync: tuple[str, ...]

    def order(self) -> tuple[int, int]:
        return (self.epoch, self.version)

    def is_newer_than(self, other: "ClusterRecord") -> bool:
        return self.order() > other.order()

    def names(self) -> list[str]:
        return [member.name for member in self.members]

    def find(self, name: str) -> Member | None:
        for member in self.members:
            if member.name == name:
                return member
        return None

    def is_majority(self, names: list[str]) -> bool:
        """Whether these are more than half of the members."""
        count = len([member for member in self.members if member.name in names])
        return 2 * count > len(self.members)

    def electable(self) -> list[str]:
        """Who may become the root, most senior first."""
        return [m.name for m in self.members if m.name in self.in_sync and m.may_be_root]

    def text(self) -> str:
        """For the log."""
        return f"record {self.epoch}.{self.version} with {', '.join(self.in_sync)} in sync"


def newest(first: ClusterRecord, second: ClusterRecord) -> ClusterRecord:
    return second if second.is_newer_than(first) else first


def cluster_id_of_key(key: bytes) -> bytes:
    """The id of a new cluster. Servers that are formatted with the same key have the same, also
    one that is added later with a longer list of members.
    """
    return hashlib.sha256(b"penstock cluster id\0" + key).digest()[:CLUSTER_ID_BYTES]


def bootstrap_record(cluster_id: bytes, members: list[Member]) -> ClusterRecord:
    """Record (0, 0). It has no store ids, not even that of the server on which it is written, so
    that it is the same everywhere.
    """
    unknown = tuple([Member(m.name, m.address, b"", m.may_be_root) for m in members])
    return ClusterRecord(0, 0, cluster_id, unknown, tuple([m.name for m in unknown]))


def encode_record(record: ClusterRecord) -> bytes:
    """Epoch u32, version u32, cluster id, members (u8 and each), in-sync set (u8, indexes u8)."""
    names = record.names()
    parts = [
        write_u32(record.epoch),
        write_u32(record.version),
        record.cluster_id,
        bytes((len(record.members),)),
    ]
    parts += [encode_member(member) for member in record.members]
    indexes = [names.index(name) for name in record.in_sync]
    return b"".join([*parts, bytes((len(indexes),)), bytes(indexes)])


def decode_record(octets: bytes, at: int) -> ClusterRecord:
    """The record fills the octets from a position on. Raises `BadPeerMessage`."""
    try:
        epoch = read_u32(octets, at)
        version = read_u32(octets, at + 4)
        cluster_id = read_bytes(octets, at + 8, CLUSTER_ID_BYTES)
        count = read_u8(octets, at + 8 + CLUSTER_ID_BYTES)
    except Malformed as error:
        raise BadPeerMessage(f"a record is cut short: {error}") from error
    if epoch > EPOCH_MAX:
        raise BadPeerMessage(f"{epoch} is not a valid epoch: the highest is {EPOCH_MAX}")
    if not 0 < count <= MEMBERS_MAX:
        raise BadPeerMessage(f"a record has 1 to {MEMBERS_MAX} members, not {count}")
    at += _HEAD_BYTES
    members: list[Member] = []
    for _ in range(count):
        member = decode_member(octets, at)
        members.append(member)
        at += member_size(member)
    if len({m.name for m in members}) < count or len({m.address for m in members}) < count:
        raise BadPeerMessage("two members of a record have the same name or the same address")
    return ClusterRecord(epoch, version, cluster_id, tuple(members), _in_sync(octets, at, members))


def _in_sync(octets: bytes, at: int, members: list[Member]) -> tuple[str, ...]:
    if at >= len(octets) or at + 1 + octets[at] != len(octets):
        raise BadPeerMessage("the in-sync set of a record does not end where its octets end")
    found: list[str] = []
    last = -1
    for index in octets[at + 1 :]:
        if not last < index < len(members):
            raise BadPeerMessage("the in-sync set of a record does not name members in their order")
        found.append(members[index].name)
        last = index
    return tuple(found)
