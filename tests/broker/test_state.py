import pytest

from penstock.broker.access.login_delay import COMPARISON_MS
from penstock.broker.access.permissions import Permission, ResourceKind
from penstock.broker.errors import (
    AccessRefused,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceError,
)
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.topology import (
    AddVhost,
    BrokerCommand,
    ClearPermissions,
    ClearTopicPermissions,
    DeclareQueue,
    DeleteUser,
    DeleteVhost,
    PutUser,
    SetGlobalParameter,
    SetPermissions,
    SetTopicPermissions,
    SetUserLimits,
    SetVhostLimits,
)
from tests.broker.doubles import CountingEntropy, DeafConsumer


@pytest.fixture
def state() -> BrokerState:
    state = BrokerState(CountingEntropy())
    put_defaults(state, 0)
    return state


def test_a_new_broker_has_one_vhost_and_guest_may_do_all_of_it(state: BrokerState) -> None:
    guest = state.users.find("guest")
    assert guest is not None
    assert guest.tags == ("administrator",)
    assert guest.loopback_only
    vhost, access = state.open_vhost("/", "guest", 0, 0)
    assert vhost is state.vhosts["/"]
    for permission in Permission:
        assert access.may(permission, ResourceKind.QUEUE, "anything")
    verification = state.users.verifier("guest", b"guest")
    verification.run()
    assert state.users.settle(verification)


def test_a_vhost_is_opened_by_those_with_permissions(state: BrokerState) -> None:
    state.apply(PutUser("u", ""), 0)
    with pytest.raises(AccessRefused) as refused:
        state.open_vhost("/", "u", 0, 0)
    assert refused.value.text == "access to vhost '/' refused for user 'u'"
    state.apply(SetPermissions("u", "/", "", "", ""), 0)
    state.open_vhost("/", "u", 0, 0)
    state.apply(ClearPermissions("u", "/"), 0)
    with pytest.raises(AccessRefused):
        state.open_vhost("/", "u", 0, 0)
    with pytest.raises(NotFound) as missing:
        state.open_vhost("nope", "guest", 0, 0)
    assert missing.value.text == "vhost nope not found"


def test_connections_to_a_vhost_can_be_limited(state: BrokerState) -> None:
    state.vhosts["/"].apply(SetVhostLimits(max_connections=2), 0)
    state.open_vhost("/", "guest", 1, 0)
    with pytest.raises(ResourceError, match=r"connection limit \(2\) is reached"):
        state.open_vhost("/", "guest", 2, 0)


def test_connections_and_channels_of_a_user_can_be_limited(state: BrokerState) -> None:
    state.check_channel_count("guest", 100)
    state.apply(SetUserLimits("guest", 2, 3), 0)
    state.open_vhost("/", "guest", 9, 1)
    with pytest.raises(ResourceError) as refused:
        state.open_vhost("/", "guest", 0, 2)
    assert refused.value.text == (
        "connection refused for user 'guest': user connection limit (2) is reached"
    )
    state.check_channel_count("guest", 2)
    with pytest.raises(NotAllowed, match=r"maximum allowed user limit of \(3\)"):
        state.check_channel_count("guest", 3)
    with pytest.raises(NotFound, match="no user 'nobody'"):
        state.apply(SetUserLimits("nobody", 2, 3), 0)


def test_what_is_said_about_a_user_goes_with_it(state: BrokerState) -> None:
    state.apply(SetUserLimits("guest", 2, 3), 0)
    state.apply(SetTopicPermissions("guest", "/", "e", "", ""), 0)
    state.apply(DeleteUser("guest"), 0)
    assert state.user_limits.listed() == []
    assert state.topic_access.listed() == []


def test_topic_permissions_go_with_their_vhost_and_can_be_cleared(state: BrokerState) -> None:
    state.apply(AddVhost("v"), 0)
    state.apply(SetTopicPermissions("guest", "v", "e", "", ""), 0)
    state.apply(SetTopicPermissions("guest", "/", "e", "", ""), 0)
    state.apply(DeleteVhost("v"), 0)
    assert [access.vhost for access in state.topic_access.listed()] == ["/"]
    state.apply(ClearTopicPermissions("guest", "/", "e"), 0)
    assert state.topic_access.listed() == []


def test_a_vhost_is_described_anew(state: BrokerState) -> None:
    state.apply(AddVhost("/", "of orders", ("a",), "quorum"), 0)
    vhost = state.vhosts["/"]
    assert (vhost.description, vhost.tags, vhost.default_queue_type) == (
        "of orders",
        ("a",),
        "quorum",
    )
    state.apply(AddVhost("/"), 0)
    assert (vhost.description, vhost.tags, vhost.default_queue_type) == ("", (), "")


def test_a_deleted_vhost_takes_queues_and_permissions_along(state: BrokerState) -> None:
    state.apply(AddVhost("v"), 0)
    state.apply(SetPermissions("guest", "v", ".*", ".*", ".*"), 0)
    vhost = state.vhost("v")
    vhost.apply(DeclareQueue("q"), 0)
    consumer = DeafConsumer()
    vhost.queues["q"].add_consumer(consumer)
    state.apply(DeleteVhost("v"), 0)
    assert consumer.heard_cancel
    assert "v" not in state.vhosts
    assert state.access.find("guest", "v") is None
    with pytest.raises(NotFound, match="no vhost 'v'"):
        state.apply(DeleteVhost("v"), 0)


def test_adding_a_vhost_twice_keeps_it(state: BrokerState) -> None:
    before = state.vhosts["/"]
    state.apply(AddVhost("/"), 0)
    assert state.vhosts["/"] is before
    with pytest.raises(PreconditionFailed):
        state.apply(AddVhost(""), 0)


def test_a_deleted_user_has_no_permissions_left(state: BrokerState) -> None:
    state.apply(DeleteUser("guest"), 0)
    assert state.access.find("guest", "/") is None
    with pytest.raises(NotFound, match="no user 'guest'"):
        state.apply(SetPermissions("guest", "/", "", "", ""), 0)


def test_permissions_need_a_vhost_that_exists(state: BrokerState) -> None:
    with pytest.raises(NotFound, match="no vhost 'v'"):
        state.apply(SetPermissions("guest", "v", "", "", ""), 0)


def test_the_end_of_a_connection_reaches_every_vhost(state: BrokerState) -> None:
    state.apply(AddVhost("v"), 0)
    for vhost in state.vhosts.values():
        vhost.apply(DeclareQueue("q", exclusive=True, connection=3), 0)
    state.connection_ended(3, 0)
    assert [list(vhost.queues) for vhost in state.vhosts.values()] == [[], []]


def test_every_vhost_knows_the_wall_clock(state: BrokerState) -> None:
    state.set_wall_offset(1_000_000)
    state.apply(AddVhost("later"), 0)
    assert [vhost.shared.wall.at(5) for vhost in state.vhosts.values()] == [1_000_005, 1_000_005]


def test_a_change_of_permissions_ends_what_dialects_have_cached(state: BrokerState) -> None:
    generations = [state.vhosts["/"].generation]
    for command in (
        SetPermissions("guest", "/", "", "", ""),
        SetTopicPermissions("guest", "/", "e", "", ""),
        ClearTopicPermissions("guest", "/"),
        ClearPermissions("guest", "/"),
        DeleteUser("guest"),
    ):
        state.apply(command, 0)
        generations.append(state.vhosts["/"].generation)
    assert generations == sorted(set(generations))


def test_a_known_password_is_let_in_at_once_but_not_compared_again_and_again(
    state: BrokerState,
) -> None:
    first = state.begin_login("guest", b"guest", "host", 5)
    assert (first.remembered, first.is_known_wrong, first.asked_at) == (False, False, 5)
    first.run()
    assert state.users.settle(first)
    assert state.begin_login("guest", b"guest", "host", 10).remembered
    assert state.begin_login("guest", b"wrong", "host", 10).is_known_wrong
    unknown = state.begin_login("guest", b"guest", "host", 11)
    assert not unknown.remembered
    assert not unknown.is_known_wrong
    assert state.begin_login("guest", b"guest", "elsewhere", 11).remembered
    assert state.begin_login("guest", b"guest", "host", 10 + COMPARISON_MS).remembered


@pytest.mark.parametrize(
    "command",
    [
        AddVhost("\ud800"),
        PutUser("\ud800", ""),
        PutUser("u\udcff", ""),
        SetTopicPermissions("guest", "/", "\ud800", "", ""),
        SetTopicPermissions("guest", "/", "", "", ""),
        SetGlobalParameter("\ud800", 1),
        SetGlobalParameter("g", "\ud800"),
    ],
)
def test_text_that_cannot_be_written_down_is_refused(
    state: BrokerState, command: BrokerCommand
) -> None:
    with pytest.raises(PreconditionFailed):
        state.apply(command, 0)
    assert set(state.vhosts) == {"/"}
    assert [user.name for user in state.users.listed()] == ["guest"]
    assert state.topic_access.listed() == []
    assert state.global_parameters == {}
