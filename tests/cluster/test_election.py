"""The election of one server, message by message: each rule, and what happens without it.

The server under test is "a" (or another letter), its peers are played by the test.
"""

from dataclasses import replace

import pytest

from penstock.cluster.messages import (
    NACK,
    PREVOTE,
    PREVOTED,
    RECORD,
    RECORD_OK,
    RELEASE,
    ROOT,
    ROOT_OK,
    VIEW,
    VOTE,
    VOTED,
    ControlMessage,
    encode_message,
)
from penstock.cluster.promises import open_promises
from penstock.cluster.record import EPOCH_MAX, ClusterRecord
from penstock.formats.peer_limits import BadPeerMessage
from tests.cluster.doubles import (
    ON_AND_OFF,
    TIMING,
    OneServer,
    active,
    bootstrap,
    candidate,
    names,
    quiet,
    record_of,
    rules_with,
    store_id_of,
)

# R7.


@ON_AND_OFF
def test_a_record_of_an_earlier_epoch_is_refused(is_on: bool) -> None:
    server = OneServer("c", record_of(1, 1), rules_with("fencing", is_on), epoch=3)
    server.hear("a", RECORD, 2, record_of(2, 1))
    sent = [(name, message.kind) for name, message in server.lines.sent]
    assert sent == ([("a", NACK)] if is_on else [("a", RECORD_OK)])
    assert (server.election.record == record_of(1, 1)) == is_on


@pytest.mark.parametrize("kind", [ROOT, VOTE])
def test_messages_of_earlier_epochs_are_answered_with_the_present_one(kind: int) -> None:
    server = quiet(OneServer("c", record_of(1, 1), epoch=3))
    server.hear("a", kind, 2, record_of(1, 1))
    ((name, message),) = server.sent(NACK)
    assert (name, message.epoch) == ("a", 3)
    assert server.election.root_name == ""


def test_a_root_stops_when_it_hears_of_a_higher_epoch() -> None:
    server = active(OneServer("a"))
    server.hear("c", NACK, 5)
    assert server.election.root is None
    assert server.election.epoch == 5
    assert server.owner.told[-1] == "stepped down: 'c' has promised epoch 5"
    assert server.owner.roles[-1] == ("joining", "'c' has promised epoch 5")


def test_a_root_that_is_replaced_stops_before_it_follows_the_other() -> None:
    server = active(OneServer("a"))
    server.hear("b", ROOT, 2, replace(server.election.record, epoch=2))
    assert server.owner.told[-2:] == [
        "stepped down: 'b' is the root of epoch 2",
        "follows b in 2",
    ]


def state(server: OneServer) -> tuple[object, ...]:
    """What a message that is refused must leave as it was."""
    election, promises = server.election, server.promises
    return (
        (election.epoch, election.record, election.role, election.root_name, election.root),
        (promises.voted_for, promises.stores, promises.version),
        (len(server.owner.told), len(server.lines.sent)),
    )


def refused(server: OneServer, name: str, kind: int, record: ClusterRecord, reason: str) -> None:
    before = state(server)
    with pytest.raises(BadPeerMessage, match=reason):
        server.hear(name, kind, record.epoch, record)
    assert state(server) == before
    # It goes on as if nothing had been said.
    server.wait(50)
    server.hear("b", VIEW, server.election.epoch, server.election.record)


@pytest.mark.parametrize("kind", [ROOT, RECORD])
def test_a_second_root_of_an_epoch_is_refused(kind: int) -> None:
    server = OneServer("c", record_of(1, 1))
    server.hear("a", ROOT, 1, record_of(1, 1))
    refused(server, "b", kind, record_of(1, 1), "'b' says .* root of epoch 1, and for .* is 'a'")
    server.hear("a", ROOT, 1, record_of(1, 1), is_active=True)
    assert server.election.root_is_active


@pytest.mark.parametrize("kind", [ROOT, RECORD])
def test_a_root_refuses_another_one_of_its_own_epoch(kind: int) -> None:
    server = active(OneServer("a"))
    record = replace(server.election.record, version=9)
    refused(server, "b", kind, record, "'b' says .* root of epoch 1, and for .* is 'a'")
    assert server.election.may_serve(server.now)


@pytest.mark.parametrize("kind", [ROOT, RECORD, VIEW, VOTE, VOTED, PREVOTE, PREVOTED])
def test_another_record_of_a_version_that_is_known_is_refused(kind: int) -> None:
    server = quiet(OneServer("c", record_of(1, 1)))
    refused(server, "a", kind, record_of(1, 1, in_sync="ab"), "another record 1.1 than 'c'")
    assert open_promises(server.disk).record == record_of(1, 1)


@pytest.mark.parametrize("kind", [VIEW, VOTED])
def test_a_candidate_gives_up_when_its_epoch_has_a_record(kind: int) -> None:
    server = candidate(OneServer("a", record_of(1, 1)))
    server.hear("b", kind, 2, record_of(2, 7))
    assert (server.election.role, server.election.root) == ("joining", None)
    assert server.election.record == record_of(2, 7)
    server.wait(50)
    active(server)
    assert server.election.record.order() == (3, 1)


def test_a_record_of_another_cluster_is_refused() -> None:
    server = OneServer("c", record_of(1, 1))
    foreign = record_of(2, 1, cluster_id=b"another cluster "[:16])
    message = ControlMessage(RECORD, server.election.record.cluster_id, 2, foreign)
    with pytest.raises(BadPeerMessage, match="of another cluster"):
        server.election.received("a", store_id_of("a"), RECORD, encode_message(message), 0)


@pytest.mark.parametrize("kind", [ROOT, RECORD])
def test_a_root_says_why_a_record_was_proposed(kind: int) -> None:
    server = OneServer("c", record_of(1, 1))
    server.hear("a", kind, 2, record_of(2, 1, in_sync="ac"), reason="'b' is slow")
    assert server.election.record_reason == "'b' is slow"
    server.hear("b", VIEW, 3, record_of(3, 1))
    assert server.election.record_reason == "another member has told of it"


def test_nobody_is_forced_to_be_the_root_of_an_epoch_that_there_is_not() -> None:
    server = OneServer("a", record_of(1, 1), epoch=EPOCH_MAX)
    server.wait(TIMING.elect_ms)
    assert "no more epochs" in server.election.force_root(server.now)


# Section 8: durability.


@ON_AND_OFF
def test_a_vote_leaves_when_it_is_durable(is_on: bool) -> None:
    server = quiet(OneServer("b", record_of(1, 1), rules_with("durability", is_on), at_once=False))
    server.hear("a", VOTE, 2, record_of(1, 1))
    assert bool(server.sent(VOTED)) != is_on
    server.disk.answer_flushes(server.now)
    server.disk.answer_flushes(server.now)
    assert bool(server.sent(VOTED)) == is_on


@ON_AND_OFF
def test_a_candidate_asks_and_counts_itself_when_its_own_vote_is_durable(is_on: bool) -> None:
    server = candidate(
        OneServer("a", record_of(1, 1), rules_with("durability", is_on), at_once=False)
    )
    assert bool(server.sent(VOTE)) != is_on
    server.hear("b", VOTED, 2, record_of(1, 1))
    assert (server.election.root is None) == is_on
    server.disk.answer_flushes(server.now)
    assert server.election.root is not None


@ON_AND_OFF
def test_a_proposal_leaves_and_counts_here_when_it_is_durable(is_on: bool) -> None:
    server = candidate(
        OneServer("a", record_of(1, 1), rules_with("durability", is_on), at_once=False)
    )
    server.disk.answer_flushes(server.now)
    server.hear("b", VOTED, 2, record_of(1, 1))
    server.hear("b", RECORD_OK, 2, accepted=(2, 1))
    assert bool(server.sent(RECORD)) != is_on
    assert server.election.has_begun() != is_on
    server.disk.answer_flushes(server.now)
    assert bool(server.sent(RECORD)) == is_on
    assert server.election.has_begun()


def test_a_heartbeat_never_shows_a_record_that_is_not_durable() -> None:
    server = candidate(OneServer("a", record_of(1, 1), at_once=False))
    server.disk.answer_flushes(server.now)
    server.hear("b", VOTED, 2, record_of(1, 1))
    shown = [message.record for _, message in server.sent(ROOT)]
    assert shown == [record_of(1, 1), record_of(1, 1)]


@ON_AND_OFF
def test_a_record_is_accepted_when_it_is_durable(is_on: bool) -> None:
    server = OneServer("c", record_of(1, 1), rules_with("durability", is_on), at_once=False)
    server.hear("a", RECORD, 1, record_of(1, 2))
    assert bool(server.sent(RECORD_OK)) != is_on
    server.disk.answer_flushes(server.now)
    assert bool(server.sent(RECORD_OK)) == is_on


@ON_AND_OFF
def test_a_new_epoch_is_durable_before_its_root_is_answered_or_joined(is_on: bool) -> None:
    server = OneServer("c", record_of(1, 1), rules_with("durability", is_on), at_once=False)
    server.hear("a", ROOT, 4, record_of(1, 1), sent_at=77)
    assert bool(server.sent(ROOT_OK)) != is_on
    assert ("follows a in 4" in server.owner.told) != is_on
    server.disk.answer_flushes(server.now)
    assert server.owner.told == ["follows a in 4"]
    assert bool(server.sent(ROOT_OK)) == is_on


def test_an_answer_that_waits_for_the_disk_does_not_leave_in_a_later_epoch() -> None:
    server = OneServer("c", record_of(1, 1), at_once=False)
    server.hear("a", RECORD, 1, record_of(1, 2))
    server.hear("b", ROOT, 2, record_of(1, 2))
    server.disk.answer_flushes(server.now)
    server.disk.answer_flushes(server.now)
    assert [(name, message.kind) for name, message in server.lines.sent] == [("b", ROOT_OK)]


def test_a_disk_that_fails_is_reported() -> None:
    server = OneServer("c", record_of(1, 1))
    server.promises.flush_failed("the disk is gone", server.now)
    assert server.owner.told == ["failed: the disk is gone"]


# Hand-over.


def test_a_server_that_hears_a_release_votes_at_once() -> None:
    server = OneServer("c", record_of(1, 1))
    server.hear("a", ROOT, 1, record_of(1, 1))
    server.hear("a", RELEASE, 1, heir="b")
    server.hear("b", VOTE, 2, record_of(1, 1))
    assert names(server.sent(VOTED)) == ["b"]


@pytest.mark.parametrize("is_line_up", [True, False])
def test_the_heir_campaigns_at_once_also_when_its_line_ended_before(is_line_up: bool) -> None:
    """The root ends the line of its backups by another connection than that of the release."""
    server = OneServer("b", record_of(1, 1))
    server.hear("a", ROOT, 1, record_of(1, 1))
    server.election.backup_is(is_syncing=False, is_synced=True, now=server.now)
    if not is_line_up:
        server.election.backup_is(is_syncing=False, is_synced=False, now=server.now)
    server.hear("a", RELEASE, 1, heir="b")
    assert server.sent(PREVOTE)


def test_an_heir_that_is_not_in_the_in_sync_set_does_not_campaign() -> None:
    server = OneServer("b", record_of(1, 1, in_sync="ac"))
    server.hear("a", ROOT, 1, record_of(1, 1, in_sync="ac"))
    server.hear("a", RELEASE, 1, heir="b")
    assert not server.sent(PREVOTE)


def test_only_the_root_can_release() -> None:
    server = OneServer("c", record_of(1, 1))
    server.hear("a", ROOT, 1, record_of(1, 1))
    server.hear("b", RELEASE, 1, heir="b")
    server.hear("b", VOTE, 2, record_of(1, 1))
    assert server.sent(VOTED) == []


# Other clusters.


def test_a_server_of_another_cluster_is_refused() -> None:
    server = OneServer("a", record_of(1, 1))
    with pytest.raises(BadPeerMessage, match="another cluster"):
        server.hear("b", NACK, 9, cluster_id=b"x" * 16)
    assert server.election.epoch == 1


def test_a_server_with_our_own_name_is_refused() -> None:
    server = OneServer("a")
    with pytest.raises(BadPeerMessage, match="has the name of this server"):
        server.hear("a", NACK, 9)


def test_servers_that_were_formatted_with_other_members_refuse_one_another() -> None:
    server = OneServer("a")
    with pytest.raises(BadPeerMessage, match="formatted with other members"):
        server.hear("b", PREVOTE, 1, bootstrap("abcd"))


def test_a_new_server_learns_the_id_of_a_cluster_that_was_forced_to_change_it() -> None:
    server = OneServer("b")
    forced = record_of(5, 1, "ab", "a", cluster_id=b"x" * 16)
    server.hear("a", ROOT, 5, forced, cluster_id=b"x" * 16)
    assert server.election.root_name == "a"
    assert server.election.record.cluster_id == b"x" * 16


# What the owner sees.


def test_roles_of_a_backup_follow_what_its_owner_says() -> None:
    server = OneServer("b", record_of(1, 1, in_sync="ac"))
    election = server.election
    assert election.role == "joining"
    server.hear("a", ROOT, 1, record_of(1, 1, in_sync="ac"), is_active=True)
    assert election.role == "joining"
    election.backup_is(is_syncing=True, is_synced=False, now=server.now)
    assert election.role == "catchup"
    election.backup_is(is_syncing=False, is_synced=True, now=server.now)
    assert election.role == "catchup"
    server.hear("a", RECORD, 1, record_of(1, 2))
    assert election.role == "ready"
    assert [role for role, _ in server.owner.roles] == ["catchup", "ready"]


def test_an_active_root_is_known_while_it_is_heard() -> None:
    server = OneServer("b", record_of(1, 1))
    server.hear("a", ROOT, 1, record_of(1, 1))
    assert not server.election.knows_active_root(server.now)
    server.hear("a", ROOT, 1, record_of(1, 1), is_active=True)
    assert server.election.knows_active_root(server.now)
    server.wait(TIMING.elect_ms, ticks=False)
    assert not server.election.knows_active_root(server.now)


def test_clients_are_not_sent_for_long_to_a_root_whose_link_has_ended() -> None:
    server = OneServer("b", record_of(1, 1), connected="ac")
    server.hear("a", ROOT, 1, record_of(1, 1), is_active=True)
    server.wait(TIMING.heartbeat_ms * 2, ticks=False)
    assert server.election.knows_active_root(server.now)
    server.lines.near = ["c"]
    assert not server.election.knows_active_root(server.now), "it was killed"
    server.hear("a", ROOT, 1, record_of(1, 1), is_active=True)
    assert server.election.knows_active_root(server.now), "it is heard over its own link"


def test_a_root_that_is_not_heard_any_more_is_not_named() -> None:
    server = OneServer("b", record_of(1, 1), connected="ac")
    server.hear("a", ROOT, 1, record_of(1, 1), is_active=True)
    assert server.election.heard_root(server.now) == "a"
    server.wait(TIMING.elect_ms, ticks=False)
    assert server.election.heard_root(server.now) == ""
    server.hear("a", ROOT, 1, record_of(1, 1), is_active=True)
    server.lines.near = []
    server.wait(TIMING.heartbeat_ms * 2, ticks=False)
    assert server.election.heard_root(server.now) == ""
    assert server.election.votes(server.now) == (0, 1, 3)


def test_every_server_computes_the_root_that_it_expects() -> None:
    server = OneServer("c", record_of(1, 1, in_sync="bc"), connected="ab")
    assert server.election.expected_root(server.now) == "b"
    server.lines.near = []
    assert server.election.expected_root(server.now) == "", "it sees no majority"
    server.lines.near = ["a"]
    assert server.election.expected_root(server.now) == "c"
    server.hear("b", ROOT, 1, record_of(1, 1, in_sync="bc"))
    assert server.election.expected_root(server.now) == "b", "a root that is heard stays"


def test_votes_are_granted_active_and_known() -> None:
    server = active(OneServer("a", connected="b"))
    assert server.election.votes(server.now) == (2, 2, 3)
    server.hear("c", VOTED, 1, bootstrap())
    assert server.election.votes(server.now) == (3, 2, 3)
