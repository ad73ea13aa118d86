"""What an operator changes in a cluster, until it has come about."""

from __future__ import annotations

import pytest

from penstock.broker.errors import NotRoot
from penstock.broker.topology import AddVhost
from penstock.node.cluster_changes import ChangeState, ChangeVerb, ClusterChange
from tests.node.cluster_world import ClusterHost, ClusterWorld


def elected(seed: int = 1) -> tuple[ClusterWorld, ClusterHost]:
    """A world and its root."""
    world = ClusterWorld(seed=seed)
    world.run(10)
    [name] = world.roots()
    return world, world.hosts[name]


def change_of(host: ClusterHost, verb: ChangeVerb, name: str = "") -> ClusterChange:
    return ClusterChange(host.member, verb, name, "")


def state_of(change: ClusterChange, host: ClusterHost) -> ChangeState:
    return change.look(host.now()).state


def test_a_hand_over_without_a_name_goes_to_the_most_senior_other_server() -> None:
    world, root = elected()
    change = change_of(root, ChangeVerb.HAND_OVER)
    assert change.begin(root.now()) == ""
    assert change.name == next(name for name in "abc" if name != root.name)
    assert state_of(change, root) is ChangeState.UNDER_WAY
    world.run(5)
    assert state_of(change, root) is ChangeState.DONE
    assert world.roots() == [change.name]


def test_a_server_is_removed_when_the_record_is_committed() -> None:
    world, root = elected()
    gone = next(name for name in "abc" if name != root.name)
    change = change_of(root, ChangeVerb.REMOVE, gone)
    assert change.begin(root.now()) == ""
    world.run(2)
    assert state_of(change, root) is ChangeState.DONE
    assert gone not in [member.name for member in root.member.status(root.now()).members]


def test_a_command_says_why_it_is_refused() -> None:
    world, root = elected()
    other = next(host for host in world.hosts.values() if host is not root)
    assert "not the active root" in change_of(other, ChangeVerb.REMOVE, "a").begin(other.now())
    assert "is the root" in change_of(root, ChangeVerb.REMOVE, root.name).begin(root.now())
    assert "not a member" in change_of(root, ChangeVerb.DISABLE_ROOT, "z").begin(root.now())


def test_what_a_change_has_ended_with_stays() -> None:
    world, root = elected()
    name = next(name for name in "abc" if name != root.name)
    disabled = change_of(root, ChangeVerb.DISABLE_ROOT, name)
    assert disabled.begin(root.now()) == ""
    world.run(2)
    assert state_of(disabled, root) is ChangeState.DONE
    enabled = change_of(root, ChangeVerb.ENABLE_ROOT, name)
    assert enabled.begin(root.now()) == ""
    world.run(2)
    assert state_of(enabled, root) is ChangeState.DONE
    assert state_of(disabled, root) is ChangeState.DONE


def test_a_server_that_is_not_the_root_refuses_administration() -> None:
    world, root = elected()
    other = next(host for host in world.hosts.values() if host is not root)
    with pytest.raises(NotRoot, match=f"connect to {root.name}:5672"):
        other.node.apply(AddVhost("v"), other.now())
    root.node.apply(AddVhost("v"), root.now())
    world.run(2)
    assert "v" in other.node.state.vhosts


def test_a_replaced_store_does_not_count_with_what_the_old_one_acknowledged() -> None:
    world, root = elected()
    root.node.apply(AddVhost("v"), root.now())
    world.run(2)
    name = next(name for name in "abc" if name != root.name)
    primary, election = root.member.primary, root.member.election
    assert primary is not None
    assert election is not None
    assert election.root is not None
    assert primary.acked_k(name) >= 0
    # A server of that name with another data directory answers.
    election.root.heard(name, b"z" * 16)
    election.root.answered(name, b"z" * 16, root.now(), root.now())
    assert change_of(root, ChangeVerb.REPLACE, name).begin(root.now()) == ""
    assert primary.acked_k(name) == -1


def test_an_addition_that_is_cancelled_has_failed() -> None:
    world, root = elected()
    addition = ClusterChange(root.member, ChangeVerb.ADD, "d", "d:5672")
    assert addition.begin(root.now()) == ""
    world.run(2)
    assert state_of(addition, root) is ChangeState.UNDER_WAY
    removal = change_of(root, ChangeVerb.REMOVE, "d")
    assert removal.begin(root.now()) == ""
    assert state_of(removal, root) is ChangeState.DONE
    progress = addition.look(root.now())
    assert (progress.state, progress.text) == (ChangeState.FAILED, "adding 'd' was cancelled")


def test_an_addition_ends_when_its_root_hands_over() -> None:
    world, root = elected()
    addition = ClusterChange(root.member, ChangeVerb.ADD, "d", "d:5672")
    assert addition.begin(root.now()) == ""
    assert change_of(root, ChangeVerb.HAND_OVER).begin(root.now()) == ""
    world.run(5)
    assert world.roots() not in ([], [root.name])
    progress = addition.look(root.now())
    assert progress.state is ChangeState.FAILED
    assert "add 'd' there" in progress.text
