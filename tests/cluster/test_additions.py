"""A server that is to be added, until it is a member or is given up; what may pass by it."""

from penstock.cluster.messages import ROOT_OK
from penstock.cluster.root_role import LEARNER_MS_MAX, LEARNER_SILENT_MS_MAX
from tests.cluster.doubles import TIMING, OneServer, answer, store_id_of
from tests.cluster.test_root_role import accept, root_of, run


def adding(connects: bool = False) -> OneServer:
    """A root that is adding "d", which may answer heartbeats and has not caught up."""
    server = root_of()
    accept(server, "bc")
    server.progress.acked = {"d": -1}
    assert server.election.add_member("d", "127.0.0.1:9000", server.now) == ""
    run(server, 100, "bcd" if connects else "bc", "bc")
    assert peers(server) == ["b", "c", "d"]
    return server


def peers(server: OneServer) -> list[str]:
    return [peer.name for peer in server.election.peers()]


def why_not_added(server: OneServer) -> str:
    assert server.election.root is not None
    return server.election.root.why_not_added


def test_an_addition_is_cancelled_by_a_removal() -> None:
    server = adding(connects=True)
    assert server.election.remove_member("d", server.now) == ""
    assert peers(server) == ["b", "c"]
    assert "was cancelled" in why_not_added(server)
    assert server.election.add_member("e", "127.0.0.1:9001", server.now) == ""


def test_an_addition_is_cancelled_while_a_record_is_pending() -> None:
    server = adding()
    assert server.election.disable_root("c", server.now) == ""
    assert "c" in server.election.hand_over("b", server.now)
    assert server.election.remove_member("d", server.now) == ""
    assert peers(server) == ["b", "c"]


def test_a_server_that_is_not_heard_is_given_up() -> None:
    server = adding()
    run(server, LEARNER_SILENT_MS_MAX - 200, "bc", "bc")
    assert peers(server) == ["b", "c", "d"]
    run(server, 300, "bc", "bc")
    assert peers(server) == ["b", "c"]
    assert "nothing was heard of 'd' at 127.0.0.1:9000 for 60 s" in why_not_added(server)
    assert server.election.remove_member("c", server.now) == ""


def test_a_server_that_is_heard_has_more_time_to_catch_up() -> None:
    server = adding(connects=True)
    run(server, 2 * LEARNER_SILENT_MS_MAX, "bcd", "bc")
    assert peers(server) == ["b", "c", "d"]


def test_a_server_that_does_not_catch_up_is_given_up() -> None:
    server = adding(connects=True)
    run(server, LEARNER_MS_MAX, "bcd", "bc")
    assert peers(server) == ["b", "c"]
    assert "has not caught up within 600 s" in why_not_added(server)


def formatted_again() -> OneServer:
    """A root of four that removes "d" and adds it again: its disk is another one by then, and the old
    one has said everything it had to say.
    """
    server = root_of(names="abcd")
    run(server, 200, "bcd", "bcd")
    assert server.election.remove_member("d", server.now) == ""
    accept(server, "bcd")
    assert server.election.record.names() == ["a", "b", "c"]
    server.hear("d", ROOT_OK, 2, sent_at=server.now)
    assert server.election.add_member("d", "127.0.0.1:9000", server.now) == ""
    run(server, 200, "bc", "bc")
    return server


def test_a_server_is_not_added_with_a_disk_that_it_had_before() -> None:
    server = formatted_again()
    assert server.election.record.names() == ["a", "b", "c"]
    # A message of the old disk that was on its way tells nothing of the present one.
    server.hear("d", ROOT_OK, 2, sent_at=server.now - 250)
    run(server, 200, "bc", "bc")
    assert server.election.record.names() == ["a", "b", "c"]
    assert peers(server) == ["b", "c", "d"]


def test_a_server_is_added_with_the_disk_that_has_caught_up() -> None:
    server = formatted_again()
    server.hear("d", ROOT_OK, 2, sent_at=server.now, life=2)
    run(server, 200, "bc", "bc")
    assert server.election.record.names() == ["a", "b", "c"], "its old disk had caught up"
    server.progress.joined = {"d": store_id_of("d", 2)}
    run(server, 100, "bc", "bc")
    added = server.election.record.find("d")
    assert added is not None
    assert added.store_id == store_id_of("d", 2)


def test_a_store_that_is_not_there_at_present_does_not_replace_another() -> None:
    server = root_of()
    server.hear("c", ROOT_OK, 2, sent_at=server.now, life=2)
    run(server, TIMING.in_sync_ms + 100, "b", "b")
    assert "'c' is not connected" in server.election.replace_member("c", server.now)
    server.hear("c", ROOT_OK, 2, sent_at=server.now, life=2)
    assert server.election.replace_member("c", server.now) == ""


def test_a_server_that_is_removed_is_a_peer_until_that_is_committed() -> None:
    server = root_of(names="abcd")
    run(server, 200, "bc", "bc")
    assert server.election.remove_member("c", server.now) == ""
    accept(server, "b")
    # Two of the four old members have accepted it, and "d" is down.
    assert peers(server) == ["b", "d", "c"]
    accept(server, "c")
    assert peers(server) == ["b", "d"]
    assert server.election.committed_record == server.election.record


def test_other_changes_of_the_members_are_told_what_they_wait_for() -> None:
    server = adding()
    for reason in (
        server.election.remove_member("c", server.now),
        server.election.add_member("e", "127.0.0.1:9001", server.now),
    ):
        assert "'d' is being added" in reason
        assert "`penstock cluster remove d`" in reason


def test_a_change_is_told_which_record_it_waits_for() -> None:
    server = root_of()
    assert server.election.remove_member("c", server.now) == ""
    assert "'c' was removed" in server.election.disable_root("b", server.now)


def test_a_change_is_told_which_hand_over_it_waits_for() -> None:
    server = root_of()
    server.progress.acked = {"b": -1}
    assert server.election.hand_over("b", server.now) == ""
    assert "a hand-over to 'b'" in server.election.remove_member("c", server.now)


def test_a_hand_over_passes_by_an_addition() -> None:
    server = adding()
    assert server.election.hand_over("b", server.now) == ""
    assert server.owner.told[-1] == "stepped down: it handed over to 'b'"


def test_root_roles_are_changed_during_an_addition() -> None:
    server = adding()
    assert server.election.disable_root("c", server.now) == ""
    accept(server, "b")
    assert server.election.record.electable() == ["a", "b"]
    # And the new server is added to what the record says by then.
    server.progress.acked = {"d": 0}
    run(server, 200, "bcd", "bcd")
    assert server.election.record.names() == ["a", "b", "c", "d"]
    assert "c" not in server.election.record.electable()


def test_a_store_is_replaced_during_an_addition() -> None:
    server = adding()
    for _ in range(40):
        server.wait(50)
        answer(server, "b")
        server.hear("c", ROOT_OK, 2, sent_at=server.now, life=2)
        accept(server, "b")
    assert server.election.replace_member("c", server.now) == ""
    accept(server, "b")
    assert server.election.is_counted("c", store_id_of("c", 2))
    assert peers(server) == ["b", "c", "d"]
