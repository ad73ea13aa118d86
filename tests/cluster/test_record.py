"""Records: order, majorities, whose answers count, and what of a record is refused."""

import pytest

from penstock.cluster.member import Member, check_name, parse_address
from penstock.cluster.record import (
    EPOCH_MAX,
    MEMBERS_MAX,
    ClusterRecord,
    bootstrap_record,
    cluster_id_of_key,
    decode_record,
    encode_record,
    newest,
)
from penstock.formats.peer_limits import BadPeerMessage
from tests.cluster.doubles import CLUSTER_ID, members_of, record_of


def test_a_record_is_read_as_it_was_written() -> None:
    member = Member("b.example-1", "amqps://[::1]:5671", b"", may_be_root=False)
    record = ClusterRecord(7, 3, CLUSTER_ID, (*members_of("a"), member), ("b.example-1",))
    assert decode_record(b"..." + encode_record(record), 3) == record


def test_records_are_ordered_by_epoch_and_then_by_version() -> None:
    records = [record_of(1, 9), record_of(2, 1), record_of(2, 2)]
    for at, record in enumerate(records):
        for other in records[at + 1 :]:
            assert other.is_newer_than(record)
            assert newest(record, other) is other
            assert newest(other, record) is other


@pytest.mark.parametrize(
    ("names", "voters", "expected"),
    [("abc", "a", False), ("abc", "ab", True), ("abcd", "ab", False), ("abcd", "abd", True)],
)
def test_a_majority_is_more_than_half_of_the_members(
    names: str, voters: str, expected: bool
) -> None:
    assert record_of(1, 1, names).is_majority([*voters, "stranger"]) == expected


def test_the_bootstrap_record_is_the_same_on_every_server() -> None:
    members = list(members_of("abc"))
    others = list(members_of("abc", life=2))
    assert bootstrap_record(CLUSTER_ID, members) == bootstrap_record(CLUSTER_ID, others)


def test_the_id_of_a_cluster_depends_on_its_key() -> None:
    assert cluster_id_of_key(b"one") == cluster_id_of_key(b"one")
    assert cluster_id_of_key(b"one") != cluster_id_of_key(b"two")


def test_electable_servers_are_in_sync_and_enabled_most_senior_first() -> None:
    a, b, c, d = members_of("abcd")
    disabled = Member(b.name, b.address, b.store_id, may_be_root=False)
    record = ClusterRecord(1, 1, CLUSTER_ID, (a, disabled, c, d), ("b", "c", "d"))
    assert record.electable() == ["c", "d"]


def with_members(*members: Member) -> bytes:
    return encode_record(ClusterRecord(1, 1, CLUSTER_ID, members, ()))


TOO_MANY = [Member(f"m{at}", f"h:{at + 1}") for at in range(MEMBERS_MAX + 1)]
WHOLE = encode_record(record_of(1, 1))


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"", "cut short"),
        (WHOLE[:30], "not valid"),
        (WHOLE[:-1], "does not end"),
        (WHOLE + b"\0", "does not end"),
        (WHOLE[:-3] + b"\0\0\1", "order"),
        (WHOLE[:-3] + b"\0\1\3", "order"),
        ((EPOCH_MAX + 1).to_bytes(4, "big") + WHOLE[4:], "not a valid epoch"),
        (with_members(), "1 to 15 members, not 0"),
        (with_members(*TOO_MANY), "1 to 15 members, not 16"),
        (with_members(Member("a", "h:1"), Member("a", "h:2")), "the same name"),
        (with_members(Member("a", "h:1"), Member("b", "h:1")), "the same address"),
        (with_members(Member("a b", "h:1")), "not a valid server name"),
        (with_members(Member("a", "h")), "not a valid address"),
        (with_members(Member("a", "h:1", b"short")), "16 octets, not 5"),
    ],
)
def test_a_record_that_is_not_valid_is_refused_with_the_reason(octets: bytes, reason: str) -> None:
    with pytest.raises(BadPeerMessage, match=reason):
        decode_record(octets, 0)


def test_addresses_have_a_host_and_a_port_and_may_ask_for_tls() -> None:
    plain = parse_address("localhost:5672")
    assert (plain.host, plain.port, plain.is_tls) == ("localhost", 5672, False)
    secure = parse_address("amqps://[::1]:5671")
    assert (secure.host, secure.port, secure.is_tls) == ("::1", 5671, True)


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", ":1", "host:0", "host:65536", "host:x", "::1:5672", "h" * 300 + ":1"],
)
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        parse_address(text)


def test_names_of_servers_are_plain_and_short() -> None:
    assert check_name("node-1.example") == ""
    assert "not a valid server name" in check_name("-a")
    assert "at most 64" in check_name("a" * 65)
