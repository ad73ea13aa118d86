"""Records that differ from the present one in one server (section 9 of the protocol).

Each function returns the members and the in-sync set that a root proposes, or raises
`ChangeRefused` with the reason for the operator.
"""

from penstock.cluster.member import Member, check_name, parse_address
from penstock.cluster.record import MEMBERS_MAX, ClusterRecord


class ChangeRefused(Exception):
    """The text says why, for the operator. Caught inside this room."""


def present(record: ClusterRecord, name: str) -> Member:
    member = record.find(name)
    if member is None:
        raise ChangeRefused(
            f"{name!r} is not a member of the cluster; members are {', '.join(record.names())}"
        )
    return member


def check_new_member(record: ClusterRecord, name: str, address: str) -> None:
    reason = check_name(name)
    if reason:
        raise ChangeRefused(reason)
    try:
        parse_address(address)
    except ValueError as error:
        raise ChangeRefused(str(error)) from error
    if record.find(name) is not None:
        raise ChangeRefused(
            f"{name!r} is a member of the cluster already; use replace if it lost its disk"
        )
    for member in record.members:
        if member.address == address:
            raise ChangeRefused(f"{address} is the address of member {member.name!r} already")
    if len(record.members) >= MEMBERS_MAX:
        raise ChangeRefused(f"a cluster has at most {MEMBERS_MAX} members")


def with_member(record: ClusterRecord, member: Member) -> ClusterRecord:
    """The new one is the most junior. It enters the in-sync set later."""
    return _changed(record, [*record.members, member], list(record.in_sync))


def without_member(record: ClusterRecord, name: str, own_name: str) -> ClusterRecord:
    present(record, name)
    if name == own_name:
        raise ChangeRefused(f"{name!r} is the root; hand over to another server first")
    members = [member for member in record.members if member.name != name]
    found = _changed(record, members, [other for other in record.in_sync if other != name])
    _check_half(found, name)
    _check_roots(found, f"without {name!r}")
    return found


def replaced(record: ClusterRecord, name: str, store_id: bytes, own_name: str) -> ClusterRecord:
    """The server of that name has another data directory now."""
    member = present(record, name)
    if name == own_name:
        raise ChangeRefused(f"{name!r} is the root, which has not lost its disk")
    if not store_id:
        raise ChangeRefused(f"{name!r} is not connected; start it with its new data directory")
    if member.store_id == store_id:
        raise ChangeRefused(f"{name!r} still has the data directory that the cluster knows")
    found = _changed(
        record,
        _put(record, Member(name, member.address, store_id, member.may_be_root)),
        [other for other in record.in_sync if other != name],
    )
    _check_half(found, name)
    return found


def bound(record: ClusterRecord, name: str, store_id: bytes) -> ClusterRecord:
    """A member whose store id was not known was heard for the first time."""
    member = present(record, name)
    assert not member.store_id, "a store id is replaced by an operator only"
    known = Member(name, member.address, store_id, member.may_be_root)
    return _changed(record, _put(record, known), list(record.in_sync))


def with_root_role(record: ClusterRecord, name: str, may_be_root: bool) -> ClusterRecord:
    member = present(record, name)
    if member.may_be_root == may_be_root:
        word = "enabled" if may_be_root else "disabled"
        raise ChangeRefused(f"the root role of {name!r} is {word} already")
    changed = Member(name, member.address, member.store_id, may_be_root)
    found = _changed(record, _put(record, changed), list(record.in_sync))
    if not found.electable():
        raise ChangeRefused(
            f"{name!r} is the only server in the in-sync set whose root role is enabled"
        )
    if not may_be_root:
        _check_roots(found, f"with the root role of {name!r} disabled")
    return found


def barrier_record(
    star: ClusterRecord, epoch: int, stores: dict[str, bytes], reachable: list[str]
) -> ClusterRecord:
    """R6: the first record of an epoch. It binds the store ids that are known, and leaves out of
    the in-sync set who is a stranger, and who cannot be reached as far as a majority allows that.
    """
    members = [
        Member(m.name, m.address, m.store_id or stores.get(m.name, b""), m.may_be_root)
        for m in star.members
    ]
    known = [m.name for m in members if m.store_id and m.name in star.in_sync]
    in_sync = [name for name in known if name in reachable]
    found = ClusterRecord(epoch, 1, star.cluster_id, tuple(members), tuple(in_sync))
    for name in known:
        if not found.is_majority(in_sync) and name not in in_sync:
            in_sync.append(name)
    order = [name for name in star.names() if name in in_sync]
    return ClusterRecord(epoch, 1, star.cluster_id, tuple(members), tuple(order))


def with_in_sync(record: ClusterRecord, names: list[str]) -> ClusterRecord:
    return _changed(record, list(record.members), names)


def _put(record: ClusterRecord, member: Member) -> list[Member]:
    return [member if old.name == member.name else old for old in record.members]


def _changed(record: ClusterRecord, members: list[Member], in_sync: list[str]) -> ClusterRecord:
    return ClusterRecord(
        record.epoch, record.version + 1, record.cluster_id, tuple(members), tuple(in_sync)
    )


def _check_roots(found: ClusterRecord, how: str) -> None:
    """A minority may be lost; one server whose root role is enabled must be left then."""
    able = [member.name for member in found.members if member.may_be_root]
    lost = (len(found.members) - 1) // 2
    if len(able) <= lost:
        raise ChangeRefused(
            f"{how} only {', '.join(able)} could be the root of {len(found.members)} servers; the "
            f"cluster is to survive the loss of {lost}, and with it of all that could be the root. "
            "Enable the root role of another server first"
        )


def _check_half(found: ClusterRecord, name: str) -> None:
    """R11."""
    if not found.is_majority(list(found.in_sync)):
        raise ChangeRefused(
            f"without {name!r} only {', '.join(found.in_sync)} would be in sync, which is not a "
            "majority of the members; wait until another server is in sync"
        )
