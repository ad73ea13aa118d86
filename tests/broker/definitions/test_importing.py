"""Definitions in RabbitMQ's form, there and back."""

import json
from decimal import Decimal

import pytest

from penstock.broker.access.users import DEFAULT_USER_HASH, DEFAULT_USER_SCRAM_KEYS
from penstock.broker.arguments import CLASSIC, QUORUM
from penstock.broker.definitions.exporting import export, export_vhost
from penstock.broker.definitions.parsing import DefinitionsRefused
from penstock.broker.errors import NotFound
from penstock.broker.header_values import Timestamp
from penstock.broker.internal_queues import LEASE_OF, LEASE_PREFIX, STAGE_OF, STAGE_PREFIX
from penstock.broker.store.definition_records import encode_change, snapshot_of
from penstock.broker.topology import (
    AddVhost,
    BindQueue,
    DeclareQueue,
    PutUser,
    SetGlobalParameter,
    SetOperatorPolicy,
    SetParameter,
    SetPermissions,
    SetTopicPermissions,
    SetUserLimits,
    SetVhostLimits,
)
from tests.broker.definitions.definition_examples import (
    RABBITMQ,
    apply,
    binding,
    logs_in,
    make_state,
    mistakes_of,
    queue,
    rows,
)

# RabbitMQ's own file.


@pytest.mark.parametrize(
    "section",
    [
        "vhosts",
        "users",
        "permissions",
        "topic_permissions",
        "parameters",
        "policies",
        "queues",
        "exchanges",
        "bindings",
    ],
)
def test_what_rabbitmq_exported_is_exported_again(section: str) -> None:
    state = make_state()
    apply(state, RABBITMQ)
    assert rows(export(state), section) == rows(RABBITMQ, section)


def test_users_of_rabbitmq_log_in_with_their_passwords_and_keep_hashes_and_tags() -> None:
    state = make_state()
    apply(state, RABBITMQ)
    assert logs_in(state, "ada", b"lovelace")  # SHA-256
    assert logs_in(state, "grace", b"hopper")  # SHA-512
    assert logs_in(state, "guest", b"guest")
    assert not logs_in(state, "ada", b"hopper")
    assert not logs_in(state, "grace", b"")
    assert not logs_in(state, "locked", b"")


def test_the_user_that_everybody_knows_stays_on_loopback() -> None:
    state = make_state()
    apply(state, RABBITMQ)
    guest, ada = state.users.find("guest"), state.users.find("ada")
    assert guest is not None and guest.loopback_only
    assert ada is not None and not ada.loopback_only


def test_where_a_known_user_may_come_from_is_not_changed() -> None:
    state = make_state()
    state.apply(PutUser("guest", DEFAULT_USER_HASH, (), False), 0)
    apply(state, RABBITMQ)
    guest = state.users.find("guest")
    assert guest is not None and not guest.loopback_only
    assert guest.tags == ("administrator",)


def test_a_file_of_rabbitmq_is_imported_without_a_warning() -> None:
    assert apply(make_state(), RABBITMQ) == []


def test_the_identity_of_another_cluster_is_not_imported() -> None:
    state = make_state()
    apply(state, RABBITMQ)
    assert {row["name"] for row in rows(RABBITMQ, "global_parameters")} == {
        "colour",
        "internal_cluster_id",
    }
    assert set(state.global_parameters) == {"colour"}


def test_what_an_operator_of_rabbitmq_has_set_holds() -> None:
    state = make_state()
    apply(state, RABBITMQ)
    assert state.user_limits.of("ada").max_connections == 7
    [topic] = state.topic_access.listed()
    assert (topic.user, topic.vhost) == ("ada", RABBITMQ["topic_permissions"][0]["vhost"])
    [limiting] = [
        policy for vhost in state.vhosts.values() for policy in vhost.operator_policies.listed()
    ]
    assert limiting.name == RABBITMQ["parameters"][0]["name"]


def test_limits_of_a_vhost_come_and_go_as_a_parameter() -> None:
    state = make_state()
    apply(state, RABBITMQ)
    assert state.vhost("orders").max_queues == 50
    assert state.vhost("orders").max_connections == 20
    exported = export(state)["parameters"]
    assert isinstance(exported, list)
    assert RABBITMQ["parameters"][1] in exported


def test_importing_twice_changes_nothing() -> None:
    state = make_state()
    apply(state, RABBITMQ)
    before = export(state)
    apply(state, RABBITMQ)
    apply(state, before)
    assert export(state) == before


def test_an_export_is_json_and_makes_the_same_broker_elsewhere() -> None:
    state, other = make_state(), make_state()
    apply(state, RABBITMQ)
    written = json.dumps(export(state))
    assert apply(other, json.loads(written)) == []
    assert export(other) == export(state)
    assert json.loads(written)["rabbit_version"] == RABBITMQ["rabbit_version"]


# One virtual host.


def test_one_vhost_is_exported_and_imported_into_another() -> None:
    state = make_state()
    apply(state, RABBITMQ)
    orders = export_vhost(state, "orders")
    assert [row["name"] for row in rows(orders, "queues")] == ["new", "paid"]
    assert "vhost" not in rows(orders, "queues")[0]
    assert "users" not in orders
    state.apply(AddVhost("copy"), 0)
    assert apply(state, orders, "copy") == []
    renamed = json.loads(json.dumps(orders).replace('"vhost": "orders"', '"vhost": "copy"'))
    assert export_vhost(state, "copy") == renamed


def test_one_vhost_needs_a_vhost_and_a_whole_broker_none() -> None:
    state = make_state()
    with pytest.raises(DefinitionsRefused) as refused:
        apply(state, {"queues": [{"name": "q", "durable": True}]}, "nowhere")
    assert refused.value.mistakes == ["queues[0]: no vhost 'nowhere'"]
    with pytest.raises(DefinitionsRefused, match="of a whole broker"):
        apply(state, {"users": []}, "/")
    with pytest.raises(NotFound):
        export_vhost(state, "nowhere")
    mistake = (
        "queues[0].vhost: is missing; if these are the definitions of one vhost, import them into "
        "a "
        "vhost"
    )
    assert mistakes_of({"queues": [{"name": "q", "durable": True}]}) == [mistake]


# Forms.


@pytest.mark.parametrize("tags", [" administrator, monitoring ,", ["administrator", "monitoring"]])
def test_tags_are_a_list_or_a_text_with_commas(tags: object) -> None:
    state = make_state()
    apply(state, {"users": [{"name": "u", "tags": tags}]})
    user = state.users.find("u")
    assert user is not None and user.tags == ("administrator", "monitoring")


def test_a_password_may_be_given_instead_of_a_hash() -> None:
    state = make_state()
    apply(state, {"users": [{"name": "u", "password": "geheim"}]})
    assert logs_in(state, "u", b"geheim")


def test_our_hashes_are_taken_as_exported_and_as_argon2_prints_them() -> None:
    state = make_state()
    algorithm = {"hashing_algorithm": "penstock_argon2id"}
    exported = next(row for row in rows(export(state), "users") if row["name"] == "guest")
    assert exported["hashing_algorithm"] == "penstock_argon2id"
    plain = {"name": "plain", "password_hash": DEFAULT_USER_HASH, **algorithm}
    apply(state, {"users": [{**exported, "name": "wrapped"}, plain]})
    assert logs_in(state, "wrapped", b"guest")
    assert logs_in(state, "plain", b"guest")


def test_unknown_lists_are_warned_of_and_remarks_are_not() -> None:
    definitions = {"ques": [], "product_name": "RabbitMQ", "rabbitmq_version": "4.1.0"}
    assert apply(make_state(), definitions) == ["ques: unknown section, ignored"]


@pytest.mark.parametrize("is_nested", [True, False])
def test_what_is_said_about_a_vhost_stands_beside_its_name_or_in_metadata(is_nested: bool) -> None:
    about = {"description": "of orders", "tags": ["a", "b"], "default_queue_type": "quorum"}
    row = {"name": "v", "metadata": about} if is_nested else {"name": "v", **about}
    state = make_state()
    apply(state, {"vhosts": [row]})
    assert export(state)["vhosts"] == [{"name": "/"}, {"name": "v", "metadata": about, **about}]


def test_a_vhost_that_is_only_named_keeps_what_is_said_about_it() -> None:
    state = make_state()
    state.apply(AddVhost("/", "of orders", ("a",), "quorum"), 0)
    apply(state, {"vhosts": [{"name": "/"}], "queues": [queue("q")]})
    assert state.vhost("/").description == "of orders"
    assert state.vhost("/").queue("q").queue_type is QUORUM
    apply(state, {"vhosts": [{"name": "/", "default_queue_type": "undefined", "tags": ["b"]}]})
    assert (state.vhost("/").description, state.vhost("/").tags) == ("", ("b",))
    assert state.vhost("/").default_queue_type == ""


def test_a_default_queue_type_changes_no_type_on_the_way() -> None:
    state, other = make_state(), make_state()
    vhost = state.vhost("/")
    vhost.apply(DeclareQueue("old", durable=True), 0)
    state.apply(AddVhost("/", default_queue_type="quorum"), 0)
    vhost.apply(DeclareQueue("new", durable=True), 0)
    apply(other, export(state))
    assert other.vhost("/").queue("old").queue_type is CLASSIC
    assert other.vhost("/").queue("new").queue_type is QUORUM
    # Imported where it came from, it is the same queue.
    assert apply(state, export(state)) == []


def test_everything_that_an_operator_sets_is_exported_and_imported() -> None:
    state, other = make_state(), make_state()
    for command in (
        AddVhost("v", "of orders", ("a", "b"), "stream"),
        PutUser(
            "ann", DEFAULT_USER_HASH, ("management", "anything"), scram_keys=DEFAULT_USER_SCRAM_KEYS
        ),
        SetUserLimits("ann", 3, 4),
        SetUserLimits("guest", max_channels=9),
        SetPermissions("ann", "v", "c", "w", "r"),
        SetTopicPermissions("ann", "v", "amq.topic", "^{username}", "r"),
        SetTopicPermissions("ann", "v", "not.there.yet", "w", ""),
        SetGlobalParameter("cluster_name", {"deep": [None, 1.5, {"a": "b"}]}),
    ):
        state.apply(command, 0)
    for change in (
        SetOperatorPolicy("o", "^q", {"max-length": 3}, "queues", 7),
        SetParameter("federation-upstream", "f", {"uri": ["amqp://"], "expires": 5}),
        SetParameter("anything", "text", "text"),
        SetVhostLimits(50, 20),
    ):
        state.vhost("v").apply(change, 0)
    written = json.dumps(export(state))
    assert apply(other, json.loads(written)) == []
    assert export(other) == export(state)
    # Not only alike as text: what is journalled is the same.
    changes = sorted([encode_change(change) for change in snapshot_of(state, [])])
    assert sorted([encode_change(change) for change in snapshot_of(other, [])]) == changes


def test_keys_of_a_password_that_is_not_changed_are_kept() -> None:
    state = make_state()
    state.apply(PutUser("guest", DEFAULT_USER_HASH, (), True, DEFAULT_USER_SCRAM_KEYS), 0)
    definitions = export(state)
    user = rows(definitions, "users")[0]
    assert user.pop("penstock_scram_keys") == DEFAULT_USER_SCRAM_KEYS
    apply(state, {"users": [user]})
    guest = state.users.find("guest")
    assert guest is not None and guest.scram_keys == DEFAULT_USER_SCRAM_KEYS
    apply(state, {"users": [{"name": "guest", "password": "another", "tags": []}]})
    guest = state.users.find("guest")
    assert guest is not None and guest.scram_keys not in {"", DEFAULT_USER_SCRAM_KEYS}


def test_bindings_that_every_queue_has_are_passed_over() -> None:
    state = make_state()
    definitions = {"queues": [queue("q")], "bindings": [binding("", "q", routing_key="q")]}
    assert apply(state, definitions) == []
    assert mistakes_of({"bindings": [binding("", "q", routing_key="other")]}, state)


def test_exclusive_queues_and_their_bindings_are_not_exported() -> None:
    state = make_state()
    vhost = state.vhost("/")
    vhost.apply(DeclareQueue("mine", exclusive=True, connection=5), 0)
    vhost.apply(BindQueue("mine", "amq.direct", "k", connection=5), 0)
    vhost.apply(DeclareQueue("ours"), 0)
    assert [row["name"] for row in rows(export(state), "queues")] == ["ours"]
    assert rows(export(state), "bindings") == []
    assert rows(export(state), "exchanges") == []


@pytest.mark.parametrize(
    ("name", "owner"), [(LEASE_PREFIX + "1", LEASE_OF), (STAGE_PREFIX + "1", STAGE_OF)]
)
def test_queues_that_the_broker_made_for_itself_are_not_exported(name: str, owner: str) -> None:
    state = make_state()
    command = DeclareQueue(name, durable=True, arguments={owner: "job"}, server_named=True)
    state.vhost("/").apply(command, 0)
    assert name in state.vhost("/").queues
    assert rows(export(state), "queues") == []


def test_argument_types_that_json_does_not_have_become_those_it_has() -> None:
    state = make_state()
    arguments: dict[str, object] = {
        "time": Timestamp(1700000000),
        "octets": b"\x00\xff",
        "exact": Decimal("1.5"),
        "nested": {"list": [Timestamp(1), None, True]},
    }
    state.vhost("/").apply(DeclareQueue("q", arguments=arguments), 0)
    (row,) = rows(export(state), "queues")
    assert row["arguments"] == {
        "time": 1700000000,
        "octets": "\x00\udcff",
        "exact": 1.5,
        "nested": {"list": [1, None, True]},
    }
    again = make_state()
    apply(again, json.loads(json.dumps({"queues": [row]})))
    assert rows(export(again), "queues") == [row]
