"""How a server asks for votes and gives its own, message by message: each rule on and off."""

from dataclasses import replace

from penstock.cluster.messages import (
    NACK,
    PREVOTE,
    PREVOTED,
    RECORD_OK,
    ROOT,
    VIEW,
    VOTE,
    VOTED,
)
from penstock.cluster.record import EPOCH_MAX
from tests.cluster.doubles import (
    ON_AND_OFF,
    TIMING,
    OneServer,
    active,
    answer,
    bootstrap,
    candidate,
    names,
    quiet,
    record_of,
    recovering,
    rules_with,
)

# R1, R3: asking.


def test_the_most_senior_server_asks_first() -> None:
    asked = {}
    for name in "abc":
        server = OneServer(name)
        while name not in asked:
            server.wait(50)
            if server.sent(PREVOTE):
                asked[name] = server.now
    assert asked["a"] < asked["b"] < asked["c"]
    assert asked["b"] - asked["a"] == TIMING.stagger_ms


def test_chance_does_not_change_the_order_of_seniority() -> None:
    """Not even if the senior heard one heartbeat more than the next, and waits as long as it may."""
    senior, junior = OneServer("a", jitter=b"\xff"), OneServer("b")
    for server in (senior, junior):
        server.hear("c", ROOT, 1, record_of(1, 1))
    for now in range(senior.now, senior.now + 2 * TIMING.elect_ms):
        if now == junior.now + TIMING.heartbeat_ms:
            senior.now = now
            senior.hear("c", ROOT, 1, record_of(1, 1))
        senior.election.tick(now)
        junior.election.tick(now)
        assert not junior.sent(PREVOTE)
        if senior.sent(PREVOTE):
            return
    raise AssertionError("nobody asked")


def test_a_prevote_promises_nothing() -> None:
    server = OneServer("a", connected="bc")
    server.wait(TIMING.elect_ms)
    (_, message), _ = server.sent(PREVOTE)
    assert message.epoch == 1
    assert server.election.epoch == 0
    server.wait(10 * TIMING.elect_ms)
    assert server.election.epoch == 0


def test_a_candidate_does_not_wait_for_the_root_that_fell_silent() -> None:
    server = OneServer("b", connected="ac")
    server.hear("a", ROOT, 1, record_of(1, 1))
    server.wait(2 * TIMING.elect_ms)
    assert server.sent(PREVOTE)
    server.hear("c", PREVOTED, 2, record_of(1, 1))
    assert server.sent(VOTE)


def test_a_candidate_waits_for_everybody_who_is_connected() -> None:
    server = OneServer("a", connected="bc")
    server.wait(TIMING.elect_ms)
    server.hear("b", PREVOTED, 1, bootstrap())
    assert server.sent(VOTE) == []
    server.hear("c", PREVOTED, 1, bootstrap())
    assert sorted(names(server.sent(VOTE))) == ["b", "c"]
    assert server.election.role == "candidate"


def test_a_majority_suffices_after_a_while() -> None:
    server = OneServer("a", connected="bc")
    server.wait(TIMING.elect_ms)
    server.hear("b", PREVOTED, 1, bootstrap())
    server.wait(TIMING.unanimous_ms)
    assert server.sent(VOTE)


def test_who_has_not_answered_is_asked_again_soon() -> None:
    server = OneServer("a", connected="bc")
    server.wait(TIMING.elect_ms)
    assert names(server.sent(PREVOTE)) == ["b", "c"]
    server.hear("b", PREVOTED, 1, bootstrap())
    server.wait(TIMING.heartbeat_ms - 50)
    assert server.sent(PREVOTE) == []
    server.wait(50)
    assert names(server.sent(PREVOTE)) == ["c"]


def test_a_junior_does_not_ask_again_before_a_senior_has_asked() -> None:
    server = OneServer("b", connected="ac")
    server.wait(TIMING.elect_ms + TIMING.stagger_ms)
    assert names(server.sent(PREVOTE)) == ["a", "c"]
    server.wait(3 * TIMING.heartbeat_ms)
    assert server.sent(PREVOTE) == []


def test_nobody_waits_for_a_server_that_is_not_connected_or_has_refused() -> None:
    server = OneServer("a", record_of(1, 1), connected="bc")
    server.wait(TIMING.elect_ms)
    server.hear("c", NACK, 1)
    server.hear("b", PREVOTED, 2, record_of(1, 1))
    assert server.sent(VOTE)
    server = OneServer("a", connected="bc")
    server.wait(TIMING.elect_ms)
    server.hear("b", PREVOTED, 1, bootstrap())
    server.lines.near = ["b"]
    server.election.link_changed(server.now)
    assert server.sent(VOTE)


def test_a_prevote_is_given_if_no_root_was_heard() -> None:
    server = OneServer("b")
    server.hear("a", PREVOTE, 1, bootstrap())
    assert server.sent(PREVOTED) == [], "it may have answered a heartbeat before it was restarted"
    quiet(server).hear("a", PREVOTE, 1, bootstrap())
    assert names(server.sent(PREVOTED)) == ["a"]


def test_a_server_with_a_lower_epoch_learns_the_present_one() -> None:
    server = quiet(OneServer("b", record_of(3, 1), epoch=7))
    server.hear("a", PREVOTE, 4, record_of(3, 1))
    ((name, message),) = server.sent(NACK)
    assert (name, message.epoch) == ("a", 7)


def test_a_server_with_an_older_record_learns_the_newer_one() -> None:
    server = quiet(OneServer("b", record_of(3, 2, in_sync="bc")))
    server.hear("a", PREVOTE, 4, record_of(3, 1))
    ((_, message),) = server.sent(VIEW)
    assert message.record == record_of(3, 2, in_sync="bc")


def test_a_server_that_cannot_win_shows_its_record() -> None:
    server = OneServer("a", record_of(3, 1, in_sync="bc"))
    server.wait(2 * TIMING.elect_ms)
    assert sorted(set(names(server.sent(VIEW)))) == ["b", "c"]


def test_a_server_whose_root_role_is_disabled_does_not_campaign() -> None:
    record = record_of(3, 1)
    disabled = replace(
        record, members=(replace(record.members[0], may_be_root=False), *record.members[1:])
    )
    server = OneServer("a", disabled)
    server.wait(2 * TIMING.elect_ms)
    assert server.sent(PREVOTE) == []
    other = quiet(OneServer("b", disabled))
    other.hear("a", PREVOTE, 4, disabled)
    assert other.sent(PREVOTED) == []


def test_a_server_that_has_used_up_the_epochs_does_not_campaign() -> None:
    server = OneServer("a", record_of(1, 1), epoch=EPOCH_MAX)
    server.wait(2 * TIMING.elect_ms)
    assert server.sent(PREVOTE) == []


# R2.


@ON_AND_OFF
def test_only_a_server_in_the_in_sync_set_campaigns(is_on: bool) -> None:
    server = OneServer("a", record_of(1, 1, in_sync="bc"), rules_with("eligibility", is_on))
    server.wait(TIMING.elect_ms + TIMING.stagger_ms * 3)
    assert bool(server.sent(PREVOTE)) != is_on


@ON_AND_OFF
def test_only_a_server_in_the_in_sync_set_gets_a_vote(is_on: bool) -> None:
    server = quiet(OneServer("b", record_of(1, 2, in_sync="bc"), rules_with("eligibility", is_on)))
    server.hear("a", VOTE, 2, record_of(1, 1))
    assert bool(server.sent(VOTED)) != is_on


@ON_AND_OFF
def test_the_winner_is_in_the_highest_in_sync_set_among_its_votes(is_on: bool) -> None:
    server = candidate(OneServer("a", record_of(1, 1), rules_with("eligibility", is_on)))
    server.hear("b", VOTED, 2, record_of(1, 2, in_sync="bc"))
    assert (server.election.root is None) == is_on


# R4.


@ON_AND_OFF
def test_a_server_votes_once_in_an_epoch(is_on: bool) -> None:
    server = quiet(OneServer("c", record_of(1, 1), rules_with("one_vote", is_on)))
    server.hear("a", VOTE, 2, record_of(1, 1))
    assert names(server.sent(VOTED)) == ["a"]
    server.hear("b", VOTE, 2, record_of(1, 1))
    assert bool(server.sent(VOTED)) != is_on


def test_a_vote_is_repeated_to_the_same_candidate() -> None:
    server = quiet(OneServer("c", record_of(1, 1)))
    server.hear("a", VOTE, 2, record_of(1, 1))
    server.hear("a", VOTE, 2, record_of(1, 1))
    assert names(server.sent(VOTED)) == ["a", "a"]


def test_a_higher_epoch_allows_another_vote() -> None:
    server = quiet(OneServer("c", record_of(1, 1)))
    server.hear("a", VOTE, 2, record_of(1, 1))
    server.hear("b", VOTE, 3, record_of(1, 1))
    assert names(server.sent(VOTED)) == ["a", "b"]


@ON_AND_OFF
def test_nobody_votes_while_a_root_may_have_a_lease(is_on: bool) -> None:
    server = quiet(OneServer("c", record_of(1, 1), rules_with("lease", is_on)))
    server.hear("a", ROOT, 1, record_of(1, 1))
    server.wait(TIMING.grace_ms - 1, ticks=False)
    server.hear("b", VOTE, 2, record_of(1, 1))
    assert bool(server.sent(VOTED)) != is_on
    server.wait(1, ticks=False)
    server.hear("b", VOTE, 2, record_of(1, 1))
    assert server.sent(VOTED)


@ON_AND_OFF
def test_a_root_does_not_vote(is_on: bool) -> None:
    server = active(OneServer("a", rules=rules_with("lease", is_on)))
    server.wait(TIMING.lease_ms, ticks=False)
    server.hear("b", VOTE, 2, server.election.record)
    assert bool(server.sent(VOTED)) != is_on


# R5, R6: winning, and the barrier.


@ON_AND_OFF
def test_a_majority_of_the_members_elects(is_on: bool) -> None:
    server = OneServer("a", record_of(1, 1, "abcde", "abcde"), rules_with("majority", is_on))
    server.wait(TIMING.elect_ms)
    server.hear("b", PREVOTED, 2, server.election.record)
    server.hear("c", PREVOTED, 2, server.election.record)
    server.hear("b", VOTED, 2, record_of(1, 1, "abcde", "abcde"))
    assert (server.election.root is None) == is_on
    server.hear("c", VOTED, 2, record_of(1, 1, "abcde", "abcde"))
    assert server.election.root is not None


def test_the_majority_is_that_of_the_highest_record_among_the_votes() -> None:
    server = candidate(OneServer("a", record_of(1, 1, "abc")))
    server.hear("b", VOTED, 2, record_of(1, 2, "abcde", "abcde"))
    assert server.election.root is None
    server.hear("d", VOTED, 2, record_of(1, 2, "abcde", "abcde"))
    assert server.election.root is not None


@ON_AND_OFF
def test_nothing_is_completed_before_the_first_record_of_the_epoch_is_committed(
    is_on: bool,
) -> None:
    server = recovering(OneServer("a", record_of(1, 1), rules_with("barrier", is_on)))
    assert server.election.has_begun() != is_on
    if is_on:
        server.hear("b", RECORD_OK, 2, accepted=(2, 1))
        assert server.election.has_begun()
        assert server.election.committed_record == server.election.record


def test_the_first_record_leaves_out_who_cannot_be_reached() -> None:
    server = recovering(OneServer("a", record_of(1, 1), connected="b"))
    assert server.election.record.order() == (2, 1)
    assert server.election.record.in_sync == ("a", "b")


def test_the_first_record_leaves_out_who_is_connected_and_hangs() -> None:
    server = OneServer("a", record_of(1, 1), connected="bc")
    server.wait(TIMING.elect_ms)
    server.hear("b", PREVOTED, 2, record_of(1, 1))
    server.wait(TIMING.unanimous_ms)
    server.hear("b", VOTED, 2, record_of(1, 1))
    assert server.election.record.in_sync == ("a", "b")


def test_a_server_that_was_refused_for_its_epoch_asks_again_soon() -> None:
    server = OneServer("a", record_of(1, 1), connected="bc")
    server.wait(TIMING.elect_ms)
    assert server.sent(PREVOTE)
    server.hear("b", NACK, 7)
    server.wait(TIMING.stagger_ms)
    assert {message.epoch for _, message in server.sent(PREVOTE)} == {8}


def test_the_first_record_keeps_a_majority_in_sync_even_if_it_cannot_be_reached() -> None:
    server = recovering(OneServer("a", record_of(1, 1, in_sync="ac")))
    assert server.election.record.in_sync == ("a", "c")


def test_a_root_is_active_when_the_inherited_state_is_committed() -> None:
    server = recovering(OneServer("a"))
    server.progress.committed = -1
    answer(server, "b")
    server.hear("b", RECORD_OK, 1, accepted=(1, 1))
    assert server.election.role == "recovering"
    assert not server.election.may_serve(server.now)
    server.progress.committed = 0
    server.election.progress_changed("b", server.now)
    assert server.election.role == "active"
    assert server.election.may_serve(server.now)
    assert server.owner.told == ["won 1", "active"]


def test_a_root_without_an_answered_heartbeat_is_not_active() -> None:
    server = recovering(OneServer("a"))
    server.hear("b", RECORD_OK, 1, accepted=(1, 1))
    assert server.election.role == "recovering"
    answer(server, "b")
    assert server.election.role == "active"
