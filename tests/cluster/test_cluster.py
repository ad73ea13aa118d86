"""Several servers that elect a root: what a cluster does as a whole."""

import pytest

from penstock.cluster.record import ClusterRecord
from tests.cluster.doubles import TIMING, Host, Network, bootstrap, record_of, store_id_of


def store_ids(record: ClusterRecord) -> dict[str, bytes]:
    return {member.name: member.store_id for member in record.members}


def roles(network: Network) -> dict[str, str]:
    return {name: host.election.role for name, host in network.hosts.items() if host.is_up}


def in_sync(network: Network) -> str:
    """As the root sees it."""
    (name,) = network.active()
    return "".join(network.hosts[name].election.record.in_sync)


def settled(network: Network) -> Network:
    network.run(2 * TIMING.elect_ms)
    assert len(network.active()) == 1
    return network


def wait_for_root(network: Network, name: str, milliseconds: int = 10_000) -> int:
    """How long it took."""
    begin = network.now
    while network.active() != [name]:
        assert network.now < begin + milliseconds, (network.active(), roles(network))
        network.run(50)
    return network.now - begin


@pytest.mark.parametrize("names", ["ab", "abc", "abcde", "abcdefg"])
def test_the_most_senior_server_becomes_the_root(names: str) -> None:
    network = settled(Network(names))
    assert network.active() == ["a"]
    assert roles(network) == {name: "active" if name == "a" else "ready" for name in names}
    assert network.hosts["b"].election.votes(network.now) == (len(names), len(names), len(names))


@pytest.mark.parametrize("gap_ms", [0, 250, 500, 1000, 1500, 3000])
def test_the_most_senior_server_becomes_the_root_though_others_start_later(gap_ms: int) -> None:
    network = Network()
    network.kill("b")
    network.kill("c")
    for name in "bc":
        network.run(gap_ms)
        network.hosts[name].start()
    while not network.active():
        network.run(50)
    assert network.active() == ["a"]
    assert network.hosts["a"].election.epoch == 1, "at its first attempt"


def test_a_server_alone_elects_itself() -> None:
    assert settled(Network("a")).active() == ["a"]


def test_the_first_record_binds_the_stores_of_all_who_were_heard() -> None:
    network = settled(Network())
    expected = {name: store_id_of(name) for name in "abc"}
    for host in network.hosts.values():
        assert store_ids(host.election.record) == expected


def test_the_next_in_seniority_takes_over_and_the_first_one_does_not_take_back() -> None:
    network = settled(Network())
    network.kill("a")
    took = wait_for_root(network, "b")
    assert TIMING.grace_ms <= took <= TIMING.elect_ms + 2 * TIMING.stagger_ms
    network.hosts["a"].start()
    network.run(3 * TIMING.elect_ms)
    assert network.active() == ["b"]
    assert roles(network) == {"a": "ready", "b": "active", "c": "ready"}
    assert network.hosts["a"].election.expected_root(network.now) == "b"


def test_a_root_that_is_cut_off_stops_before_another_one_serves() -> None:
    network = settled(Network())
    network.cut = {"a"}
    while network.active() != ["b"]:
        assert len(network.active()) <= 1
        network.run(50)
    assert network.hosts["a"].election.role == "joining"
    assert "its lease has ended" in network.hosts["a"].owner.told[-1]
    network.cut = set()
    network.run(TIMING.elect_ms)
    assert network.active() == ["b"]


def test_a_minority_elects_nobody() -> None:
    network = settled(Network("abcde"))
    for name in "abc":
        network.kill(name)
    network.run(5 * TIMING.elect_ms)
    assert network.active() == []
    network.hosts["c"].start()
    network.run(3 * TIMING.elect_ms)
    assert len(network.active()) == 1


def test_after_a_power_loss_of_all_a_member_of_the_in_sync_set_wins() -> None:
    """The most senior server is up again, but was not in sync."""
    network = Network("abc", record_of(4, 2, in_sync="bc"))
    for host in network.hosts.values():
        host.progress.acked["a"] = -1
    network.run(3 * TIMING.elect_ms)
    assert network.active() == ["b"]


def test_the_root_hands_over_within_a_moment() -> None:
    network = settled(Network())
    assert network.hosts["a"].election.hand_over("c", network.now) == ""
    assert wait_for_root(network, "c") < TIMING.heartbeat_ms * 2
    network.run(3 * TIMING.elect_ms)
    assert network.active() == ["c"]


# Store ids that the bootstrap record does not have.


def test_a_server_that_starts_later_is_bound_when_it_is_heard() -> None:
    network = Network()
    network.kill("c")
    settled(network)
    record = network.hosts["a"].election.record
    assert store_ids(record)["c"] == b""
    assert record.in_sync == ("a", "b")
    network.hosts["c"].start()
    network.run(TIMING.elect_ms)
    record = network.hosts["a"].election.record
    assert store_ids(record)["c"] == store_id_of("c")
    assert record.in_sync == ("a", "b", "c")


def test_a_server_that_starts_later_helps_to_elect_before_it_is_bound() -> None:
    """Else a majority that is up and connected could have no root."""
    network = Network()
    network.kill("c")
    settled(network)
    network.kill("a")
    network.hosts["c"].start()
    wait_for_root(network, "b")
    assert store_ids(network.hosts["b"].election.record)["c"] == store_id_of("c")


def test_a_server_that_lost_its_disk_before_it_was_bound_does_not_count_with_who_heard_it() -> None:
    network = Network()
    network.run(100)
    # Only b hears c: it is asked for a prevote, long before the first election.
    network.hosts["b"].election.promises.heard("c", store_id_of("c"), network.now)
    network.kill("a")
    network.hosts["c"] = Host(network, "c", bootstrap(), life=2)
    network.run(5 * TIMING.elect_ms)
    assert network.active() == []


def test_a_server_that_lost_its_disk_does_not_pass_for_the_one_it_was() -> None:
    network = settled(Network())
    network.kill("a")
    network.kill("b")
    # Together with c it would be a majority, and c has everything; but a and b may have agreed on
    # a record without c before.
    network.hosts["b"] = Host(network, "b", bootstrap(), life=2)
    network.run(5 * TIMING.elect_ms)
    assert network.active() == []
    assert network.hosts["b"].election.record.epoch == 1
    network.hosts["a"].start()
    network.run(3 * TIMING.elect_ms)
    assert network.active() == ["a"]
    root = network.hosts["a"].election
    assert root.record.in_sync == ("a", "c")
    assert not root.is_counted("b", store_id_of("b", 2))


def test_a_lost_disk_is_replaced_and_the_server_counts_again() -> None:
    network = settled(Network())
    network.kill("b")
    network.hosts["b"] = Host(network, "b", bootstrap(), life=2)
    network.run(2 * TIMING.in_sync_ms)
    root = network.hosts["a"].election
    assert in_sync(network) == "ac"
    assert root.replace_member("b", network.now) == ""
    network.run(TIMING.elect_ms)
    assert in_sync(network) == "abc"
    network.kill("a")
    wait_for_root(network, "b")


def test_a_server_is_added_and_another_one_removed() -> None:
    network = settled(Network())
    network.hosts["d"] = Host(network, "d", bootstrap("abcd"), life=1)
    root = network.hosts["a"].election
    assert root.add_member("d", "127.0.0.1:5675", network.now) == ""
    network.run(TIMING.elect_ms)
    assert root.record.in_sync == ("a", "b", "c", "d")
    assert root.remove_member("b", network.now) == ""
    network.run(TIMING.elect_ms)
    assert root.record.names() == ["a", "c", "d"]
    network.kill("b")
    network.kill("a")
    wait_for_root(network, "c")


def test_a_server_that_was_removed_while_it_was_down_cannot_win() -> None:
    network = settled(Network("abcd"))
    network.kill("d")
    network.run(2 * TIMING.in_sync_ms)
    assert network.hosts["a"].election.remove_member("d", network.now) == ""
    network.run(TIMING.elect_ms)
    network.kill("a")
    network.kill("b")
    network.hosts["d"].start()
    network.run(5 * TIMING.elect_ms)
    assert network.active() == []


def test_a_forced_root_refuses_the_servers_of_the_old_cluster_and_takes_new_ones() -> None:
    network = settled(Network())
    network.kill("a")
    network.kill("b")
    network.run(2 * TIMING.elect_ms)
    survivor = network.hosts["c"].election
    assert survivor.force_root(network.now) == ""
    wait_for_root(network, "c")
    network.hosts["b"] = Host(network, "b", bootstrap(), life=2)
    network.run(TIMING.elect_ms)
    network.hosts["c"].progress.joined = {"b": store_id_of("b", 2)}
    assert survivor.add_member("b", "127.0.0.1:5673", network.now) == ""
    network.run(TIMING.elect_ms)
    assert survivor.record.in_sync == ("c", "b")
    assert network.hosts["b"].election.root_name == "c"


def test_every_change_of_role_has_a_reason() -> None:
    network = settled(Network())
    network.kill("a")
    wait_for_root(network, "b")
    for host in network.hosts.values():
        for role, reason in host.owner.roles:
            assert role
            assert reason
    assert ("recovering", "b, c voted for it in epoch 2") in network.hosts["b"].owner.roles
