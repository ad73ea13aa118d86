"""The root of an epoch: lease, records, in-sync set, hand-over; each rule on and off."""

from dataclasses import replace

import pytest

from penstock.cluster.messages import PREVOTED, RECORD, RECORD_OK, RELEASE, ROOT, ROOT_OK, VOTED
from penstock.cluster.rules import ALL_RULES, ElectionRules
from tests.cluster.doubles import (
    ON_AND_OFF,
    TIMING,
    OneServer,
    active,
    answer,
    record_of,
    rules_with,
    store_id_of,
)


def root_of(names: str = "abc", rules: ElectionRules = ALL_RULES, in_sync: str = "") -> OneServer:
    """An active root "a" of epoch 2, elected by a majority."""
    others = names.replace("a", "")
    server = OneServer("a", record_of(1, 1, names, in_sync or names), rules, others)
    return active(server, others[: len(names) // 2])


def run(server: OneServer, milliseconds: int, answering: str, accepting: str = "") -> None:
    """Time passes; these peers answer heartbeats, and accept records."""
    end = server.now + milliseconds
    while server.now < end and server.election.root is not None:
        server.wait(50)
        answer(server, answering)
        accept(server, accepting)


def accept(server: OneServer, names: str) -> None:
    election = server.election
    for name in names:
        if election.root is not None:
            server.hear(name, RECORD_OK, election.epoch, accepted=election.record.order())


def in_sync(server: OneServer) -> str:
    return "".join(server.election.record.in_sync)


# R14, R15.


@ON_AND_OFF
def test_a_root_serves_for_the_time_of_its_lease_only(is_on: bool) -> None:
    server = root_of(rules=rules_with("lease", is_on))
    server.wait(TIMING.lease_ms, ticks=False)
    assert server.election.may_serve(server.now)
    server.wait(1, ticks=False)
    assert server.election.may_serve(server.now) != is_on
    server.election.tick(server.now)
    assert (server.election.root is None) == is_on
    if is_on:
        assert server.owner.told[-1].startswith("stepped down: its lease has ended")


def test_the_lease_begins_when_the_answered_heartbeat_was_sent() -> None:
    server = root_of()
    sent_at = server.now
    server.wait(400)
    server.hear("b", ROOT_OK, 2, sent_at=sent_at)
    assert server.election.lease_until(server.now) == sent_at + TIMING.lease_ms


def test_answers_of_a_minority_do_not_renew_the_lease() -> None:
    server = root_of("abcde")
    run(server, TIMING.lease_ms + 100, "b")
    assert server.election.root is None


def test_a_time_that_a_root_has_not_sent_yet_does_not_renew_its_lease() -> None:
    server = root_of()
    before = server.election.lease_until(server.now)
    server.hear("b", ROOT_OK, 2, sent_at=server.now + 1_000_000)
    assert server.election.lease_until(server.now) == before


def test_an_answer_of_an_earlier_epoch_does_not_renew_the_lease() -> None:
    server = root_of()
    before = server.election.lease_until(server.now)
    server.wait(100)
    server.hear("b", ROOT_OK, 1, sent_at=server.now)
    assert server.election.lease_until(server.now) == before


@ON_AND_OFF
def test_no_heartbeat_is_sent_while_the_journal_hangs(is_on: bool) -> None:
    server = root_of(rules=rules_with("progress", is_on))
    server.sent(ROOT)
    server.owner.is_disk_slow = True
    run(server, TIMING.heartbeat_ms * 2, "bc")
    assert bool(server.sent(ROOT)) != is_on
    server.owner.is_disk_slow = False
    run(server, TIMING.heartbeat_ms * 2, "bc")
    assert server.sent(ROOT)


@ON_AND_OFF
def test_no_heartbeat_is_sent_while_the_flush_of_a_promise_hangs(is_on: bool) -> None:
    server = OneServer("a", record_of(1, 1), rules_with("progress", is_on), "bc", at_once=False)
    server.wait(TIMING.elect_ms + 3 * TIMING.stagger_ms)
    server.hear("b", PREVOTED, 2, record_of(1, 1))
    server.hear("c", PREVOTED, 2, record_of(1, 1))
    server.disk.answer_flushes(server.now)
    server.hear("b", VOTED, 2, record_of(1, 1))
    run(server, TIMING.disk_ms + 100, "bc")
    server.sent(ROOT)
    run(server, TIMING.heartbeat_ms * 2, "bc")
    assert bool(server.sent(ROOT)) != is_on


@ON_AND_OFF
def test_no_heartbeat_is_sent_right_after_the_event_loop_lagged(is_on: bool) -> None:
    server = root_of(rules=rules_with("progress", is_on))
    server.sent(ROOT)
    server.now += TIMING.lease_ms // 2 + 1
    server.election.tick(server.now)
    assert bool(server.sent(ROOT)) != is_on
    server.now += 50
    server.election.tick(server.now)
    assert bool(server.sent(ROOT)) == is_on


def test_heartbeats_are_sent_at_their_interval() -> None:
    server = root_of()
    run(server, 1000, "bc")
    server.sent(ROOT)
    run(server, 1000, "bc")
    assert len([name for name, _ in server.sent(ROOT) if name == "b"]) == 4


# R8, R10.


def pending(rules: ElectionRules = ALL_RULES) -> OneServer:
    """A root that proposes to leave c out of the in-sync set."""
    server = root_of(rules=rules)
    run(server, TIMING.in_sync_ms + 100, "b")
    assert in_sync(server) == "ab"
    return server


@ON_AND_OFF
def test_while_a_record_is_pending_the_old_and_the_new_set_are_awaited(is_on: bool) -> None:
    server = pending(rules_with("both_sets", is_on))
    assert sorted(server.election.awaited()) == (["a", "b", "c"] if is_on else ["a", "b"])
    accept(server, "b")
    assert sorted(server.election.awaited()) == ["a", "b"]


def test_a_record_is_repeated_until_a_majority_has_it_and_no_other_one_is_proposed() -> None:
    server = pending()
    order = server.election.record.order()
    server.sent(RECORD)
    run(server, TIMING.heartbeat_ms * 2, "bc")
    assert {name for name, _ in server.sent(RECORD)} == {"b", "c"}
    assert server.election.record.order() == order
    accept(server, "b")
    run(server, TIMING.heartbeat_ms * 2, "bc", "bc")
    assert in_sync(server) == "abc"


def test_an_acceptance_of_another_record_does_not_count() -> None:
    server = pending()
    epoch, version = server.election.record.order()
    server.hear("b", RECORD_OK, epoch, accepted=(epoch, version - 1))
    assert server.election.committed_record != server.election.record


@ON_AND_OFF
def test_a_member_is_removed_by_majorities_of_the_old_and_the_new_members(is_on: bool) -> None:
    server = root_of("abcd", rules_with("both_majorities", is_on), "abc")
    accept(server, "bcd")
    assert server.election.remove_member("d", server.now) == ""
    assert server.election.record.names() == ["a", "b", "c"]
    accept(server, "b")
    committed = server.election.committed_record
    assert committed is not None
    assert (committed.names() == ["a", "b", "c", "d"]) == is_on
    accept(server, "c")
    assert server.election.committed_record == server.election.record


# R11, R12, R13.


@ON_AND_OFF
def test_the_in_sync_set_stays_a_majority(is_on: bool) -> None:
    server = root_of("abcde", rules_with("never_below_half", is_on), "abc")
    accept(server, "bcde")
    server.progress.acked = {"d": -1, "e": -1}
    server.progress.last = 9
    server.progress.acked |= {"b": 3, "c": 3}
    server.progress.behind = {"b": server.now, "c": server.now, "d": server.now, "e": server.now}
    run(server, TIMING.in_sync_ms * 3, "bcde", "bcde")
    assert (in_sync(server) == "abc") == is_on


@ON_AND_OFF
def test_only_a_server_that_has_caught_up_enters_the_in_sync_set(is_on: bool) -> None:
    server = root_of(rules=rules_with("caught_up", is_on), in_sync="ab")
    server.progress.committed = 7
    server.progress.last = 7
    server.progress.acked = {"b": 7, "c": 6}
    run(server, 500, "bc", "bc")
    assert (in_sync(server) == "ab") == is_on
    server.progress.acked["c"] = 7
    server.election.progress_changed("c", server.now)
    assert in_sync(server) == "abc", "it is considered at once, not with the next tick only"


def test_a_server_that_has_not_synced_does_not_enter_the_in_sync_set() -> None:
    server = root_of(in_sync="ab")
    server.progress.acked = {"c": -1}
    server.progress.committed = -1
    run(server, 500, "bc", "bc")
    assert in_sync(server) == "ab"


def test_a_member_that_answers_no_heartbeat_is_dropped() -> None:
    server = root_of()
    run(server, TIMING.in_sync_ms + 100, "b", "b")
    assert in_sync(server) == "ab"


def test_a_member_that_makes_no_progress_is_dropped_and_an_idle_one_is_not() -> None:
    server = root_of()
    run(server, TIMING.in_sync_ms * 4, "bc", "bc")
    assert in_sync(server) == "abc"
    server.progress.last = 5
    server.progress.acked = {"a": 5, "b": 5, "c": 4}
    server.progress.behind = {"c": server.now}
    run(server, TIMING.in_sync_ms, "bc", "bc")
    assert in_sync(server) == "abc"
    run(server, 100, "bc", "bc")
    assert in_sync(server) == "ab"


def test_a_member_that_never_joins_is_dropped() -> None:
    server = root_of()
    server.progress.acked = {"c": -1}
    run(server, TIMING.in_sync_ms * 2 + 100, "bc", "bc")
    assert in_sync(server) == "ab"


def test_a_ready_server_is_swapped_in_for_one_that_failed() -> None:
    server = root_of(in_sync="ab")
    server.progress.acked = {"c": -1}
    run(server, TIMING.in_sync_ms + 200, "c", "c")
    assert in_sync(server) == "ab", "without b it would not be a majority"
    server.progress.acked = {}
    run(server, 100, "c", "c")
    assert in_sync(server) == "ac"


@ON_AND_OFF
def test_guards_wait_for_a_server_that_has_nearly_caught_up(is_on: bool) -> None:
    server = root_of(rules=rules_with("guard_early", is_on), in_sync="ab")
    server.progress.committed = server.progress.last = 9
    server.progress.acked = {"b": 9, "c": 8}
    server.progress.made_at = {"c": server.now}
    server.progress.behind = {"c": server.now}
    run(server, 100, "bc", "bc")
    assert ("c" in server.election.awaited()) == is_on
    assert in_sync(server) == "ab"
    run(server, TIMING.in_sync_ms + 100, "bc", "bc")
    assert "c" not in server.election.awaited(), "they wait for a limited time"
    server.progress.made_at = {"c": server.now}
    run(server, TIMING.in_sync_ms, "bc", "bc")
    assert "c" not in server.election.awaited(), "the next attempt comes later"


def test_a_root_says_with_each_record_why_it_was_proposed() -> None:
    server = root_of()
    server.lines.sent = []
    assert server.election.remove_member("c", server.now) == ""
    assert {message.reason for _, message in server.sent(RECORD)} == {"'c' was removed"}
    run(server, 300, "b", "b")
    ((_, first), *_) = server.sent(ROOT)
    assert first.reason == "'c' was removed"


# Hand-over.


def test_a_hand_over_waits_until_the_heir_has_everything() -> None:
    server = root_of()
    server.progress.last = 5
    server.progress.committed = 4
    server.progress.acked = {"b": 4}
    assert server.election.hand_over("b", server.now) == ""
    assert not server.election.may_serve(server.now), "it accepts nothing more"
    run(server, 200, "bc")
    assert server.election.role == "active"
    server.progress.committed = 5
    server.progress.acked = {"b": 5}
    server.progress.syncing = ["b"]
    server.election.progress_changed("b", server.now)
    assert server.election.role == "active"
    server.progress.syncing = []
    server.election.progress_changed("b", server.now)
    assert server.election.role == "joining"
    assert {message.heir for _, message in server.sent(RELEASE)} == {"b"}
    assert server.owner.told[-1] == "stepped down: it handed over to 'b'"


def test_a_hand_over_that_takes_too_long_is_given_up() -> None:
    server = root_of()
    server.progress.last = 5
    assert server.election.hand_over("b", server.now) == ""
    server.progress.acked = {"b": 4}
    run(server, TIMING.hand_over_ms + 100, "bc")
    assert server.election.may_serve(server.now)
    assert "remains the root" in server.owner.roles[-1][1]


@pytest.mark.parametrize(
    ("heir", "reason"),
    [("a", "not another member"), ("x", "not another member"), ("c", "in-sync set")],
)
def test_a_hand_over_to_a_server_that_cannot_take_it_is_refused(heir: str, reason: str) -> None:
    server = root_of(in_sync="ab")
    assert reason in server.election.hand_over(heir, server.now)
    assert server.election.may_serve(server.now)


# Members and store ids.


def test_a_server_is_added_when_it_has_caught_up() -> None:
    server = root_of()
    accept(server, "bc")
    server.progress.acked = {"d": -1}
    assert server.election.add_member("d", "127.0.0.1:9000", server.now) == ""
    assert [peer.name for peer in server.election.peers()] == ["b", "c", "d"]
    server.hear("d", ROOT_OK, 2, sent_at=server.now)
    run(server, 500, "bcd", "bc")
    assert server.election.record.names() == ["a", "b", "c"]
    server.progress.acked = {"d": 0}
    run(server, 100, "bcd", "bc")
    added = server.election.record.find("d")
    assert added is not None
    assert added.store_id == store_id_of("d")
    run(server, 200, "bcd", "bcd")
    assert in_sync(server) == "abcd"


@pytest.mark.parametrize(
    ("name", "address", "reason"),
    [
        ("b", "h:1", "already"),
        ("d", "127.0.0.1:5673", "address of member 'b'"),
        ("d e", "h:1", "not a valid server name"),
        ("d", "h", "not a valid address"),
    ],
)
def test_a_server_that_cannot_be_added_is_refused(name: str, address: str, reason: str) -> None:
    server = root_of()
    assert reason in server.election.add_member(name, address, server.now)


@pytest.mark.parametrize(("name", "reason"), [("a", "is the root"), ("x", "not a member")])
def test_a_server_that_cannot_be_removed_is_refused(name: str, reason: str) -> None:
    server = root_of()
    assert reason in server.election.remove_member(name, server.now)


def test_a_removal_that_would_leave_too_few_in_sync_is_refused() -> None:
    server = root_of(in_sync="ab")
    server.progress.acked = {"c": -1}
    run(server, 100, "bc", "bc")
    assert "not a majority" in server.election.remove_member("b", server.now)


def test_only_the_active_root_changes_members() -> None:
    server = OneServer("b", record_of(1, 1))
    assert "not the active root" in server.election.remove_member("c", server.now)


@ON_AND_OFF
def test_a_server_with_an_empty_disk_does_not_count_before_it_is_replaced(is_on: bool) -> None:
    server = root_of(rules=rules_with("store_ids", is_on))
    for _ in range(40):
        server.wait(50)
        answer(server, "b")
        server.hear("c", ROOT_OK, 2, sent_at=server.now, life=2)
        accept(server, "b")
    assert (in_sync(server) == "ab") == is_on
    if is_on:
        assert not server.election.is_counted("c", store_id_of("c", 2))
        assert server.election.replace_member("c", server.now) == ""
        accept(server, "b")
        assert server.election.is_counted("c", store_id_of("c", 2))
        assert not server.election.is_counted("c", store_id_of("c", 1))
        server.hear("c", ROOT_OK, 2, sent_at=server.now, life=2)
        server.wait(50)
        assert in_sync(server) == "abc"


def test_acceptances_of_a_stranger_do_not_commit_a_record() -> None:
    server = pending()
    order = server.election.record.order()
    server.hear("c", RECORD_OK, 2, accepted=order, life=2)
    assert server.election.committed_record != server.election.record
    server.hear("c", RECORD_OK, 2, accepted=order)
    assert server.election.committed_record == server.election.record


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a", "is the root"), ("x", "not a member"), ("b", "still has the data directory")],
)
def test_a_replacement_that_makes_no_sense_is_refused(name: str, reason: str) -> None:
    server = root_of()
    assert reason in server.election.replace_member(name, server.now)


def test_a_server_that_was_not_heard_cannot_be_replaced() -> None:
    server = active(OneServer("a", record_of(1, 1), connected="b"))
    assert "not connected" in server.election.replace_member("c", server.now)


def test_the_root_role_of_a_server_is_disabled_and_enabled() -> None:
    server = root_of()
    assert server.election.disable_root("b", server.now) == ""
    accept(server, "b")
    assert server.election.record.electable() == ["a", "c"]
    assert "disabled already" in server.election.disable_root("b", server.now)
    assert "is disabled" in server.election.hand_over("b", server.now)
    assert server.election.enable_root("b", server.now) == ""
    assert server.election.record.electable() == ["a", "b", "c"]


def test_a_root_whose_role_is_disabled_hands_over() -> None:
    server = root_of()
    assert server.election.disable_root("a", server.now) == ""
    accept(server, "b")
    assert server.owner.told[-1] == "stepped down: it handed over to 'b'"


def test_the_last_root_role_cannot_be_disabled() -> None:
    server = root_of(in_sync="ab")
    server.progress.acked = {"c": -1}
    assert server.election.disable_root("b", server.now) == ""
    accept(server, "b")
    assert "the only server" in server.election.disable_root("a", server.now)


def test_more_root_roles_stay_enabled_than_servers_may_be_lost() -> None:
    server = root_of()
    assert server.election.disable_root("b", server.now) == ""
    accept(server, "b")
    reason = server.election.disable_root("c", server.now)
    assert "with the root role of 'c' disabled only a could be the root of 3 servers" in reason
    assert "survive the loss of 1" in reason
    assert server.election.record.electable() == ["a", "c"]


def test_a_server_is_not_removed_that_must_be_able_to_be_the_root() -> None:
    server = root_of(names="abcd", in_sync="abcd")
    for name in "bc":
        reason = server.election.disable_root(name, server.now)
        accept(server, "bd")
    assert reason == ""
    assert "without 'd' only a could be the root of 3 servers" in server.election.remove_member(
        "d", server.now
    )


def test_a_survivor_that_is_forced_becomes_the_root_of_a_cluster_of_its_own() -> None:
    server = OneServer("b", record_of(3, 2, in_sync="ac"))
    server.wait(TIMING.elect_ms)
    assert server.election.force_root(server.now) == ""
    server.wait(200)
    assert server.election.role == "active"
    assert server.election.record.names() == ["b"]
    assert server.election.record.cluster_id != record_of(3, 2).cluster_id


def test_nothing_is_forced_while_there_is_a_root() -> None:
    server = OneServer("b", record_of(3, 2))
    server.hear("a", ROOT, 3, record_of(3, 2))
    assert "'a' is the root" in server.election.force_root(server.now)
    root = root_of()
    assert "this server is the root" in root.election.force_root(root.now)


def test_a_stranger_cannot_be_forced() -> None:
    record = record_of(3, 2)
    other = replace(record.members[1], store_id=store_id_of("b", 2))
    server = OneServer("b", replace(record, members=(record.members[0], other, record.members[2])))
    assert "not a member" in server.election.force_root(server.now)
