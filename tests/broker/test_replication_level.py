"""Which level of replication an object gets when it is declared, and which ones are refused."""

import pytest

from penstock.broker.access.new_password import NewPasswords
from penstock.broker.definitions.parsing import DefinitionsRefused, parse
from penstock.broker.definitions.rehearsal import rehearse
from penstock.broker.errors import PreconditionFailed
from penstock.broker.replication_level import ReplicationLevel, ReplicationTest
from penstock.broker.shared_services import SharedServices
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.store.definition_records import Change, decode_change, encode_change
from penstock.broker.topology import (
    ChangeQueueArguments,
    ClearPolicy,
    DeclareExchange,
    DeclareQueue,
    SetOperatorPolicy,
    SetPolicy,
)
from penstock.broker.vhost import VirtualHost
from penstock.server.world.entropy import MachineEntropy

ALL, CONFIGURATION, NONE = (
    ReplicationLevel.ALL,
    ReplicationLevel.CONFIGURATION,
    ReplicationLevel.NONE,
)


def member(default: ReplicationLevel = ALL) -> VirtualHost:
    shared = SharedServices()
    shared.replication = ReplicationTest(default, True)
    return VirtualHost("/", shared)


def queue_level(
    vhost: VirtualHost, word: object = None, name: str = "q", durable: bool = True
) -> ReplicationLevel:
    arguments = {} if word is None else {"x-replicate": word}
    vhost.apply(DeclareQueue(name, durable=durable, arguments=arguments), 0)
    return vhost.queue(name).level


def exchange_level(vhost: VirtualHost, word: object = None, name: str = "x") -> ReplicationLevel:
    arguments = {} if word is None else {"x-replicate": word}
    vhost.apply(DeclareExchange(name, "topic", durable=True, arguments=arguments), 0)
    return vhost.exchange(name).level


@pytest.mark.parametrize("level", list(ReplicationLevel))
def test_the_argument_decides_before_the_policy_and_the_policy_before_the_default(
    level: ReplicationLevel,
) -> None:
    other = CONFIGURATION if level is not CONFIGURATION else NONE
    vhost = member(other)
    vhost.apply(SetPolicy("p", "^by", {"replicate": other.value}), 0)
    assert queue_level(vhost, level.value, "by.argument") is level
    assert exchange_level(vhost, level.value, "by.argument") is level
    vhost.apply(SetPolicy("p", "^by", {"replicate": level.value}), 0)
    assert queue_level(vhost, name="by.policy") is level
    assert exchange_level(vhost, name="by.policy") is level
    assert queue_level(member(level)) is level
    assert exchange_level(member(level)) is level


def test_a_level_is_fixed_when_its_object_is_declared() -> None:
    vhost = member()
    vhost.apply(SetPolicy("p", ".*", {"replicate": "none"}), 0)
    assert (queue_level(vhost), exchange_level(vhost)) == (NONE, NONE)
    vhost.apply(ClearPolicy("p"), 0)
    assert (queue_level(vhost), exchange_level(vhost)) == (NONE, NONE)
    assert queue_level(vhost, name="later") is ALL
    with pytest.raises(PreconditionFailed, match="x-replicate"):
        vhost.apply(ChangeQueueArguments("later", {"x-replicate": "none"}), 0)


@pytest.mark.parametrize("word", ["some", "", "ALL", 1, True, ["all"]])
def test_what_is_not_a_level_is_refused(word: object) -> None:
    vhost = member()
    with pytest.raises(PreconditionFailed, match="invalid arg 'x-replicate' for queue 'q'"):
        queue_level(vhost, word)
    with pytest.raises(PreconditionFailed, match="invalid arg 'x-replicate' for exchange 'x'"):
        exchange_level(vhost, word)
    with pytest.raises(PreconditionFailed, match="is not a valid replication level"):
        vhost.apply(SetPolicy("p", ".*", {"replicate": word}), 0)
    assert not vhost.queues and "x" not in vhost.exchanges and not vhost.policies.listed()


def test_a_server_on_its_own_checks_levels_and_keeps_everything() -> None:
    vhost = VirtualHost("/", SharedServices())
    assert queue_level(vhost, "none") is ALL
    assert exchange_level(vhost, "configuration") is ALL
    assert vhost.queue("q").is_lasting
    with pytest.raises(PreconditionFailed, match="unsupported replication level 'some'"):
        queue_level(vhost, "some", "other")


def test_a_second_declaration_must_say_the_same() -> None:
    vhost = member()
    queue_level(vhost, "none")
    exchange_level(vhost, "none")
    queue_level(vhost, "none")
    exchange_level(vhost, "none")
    for word in (None, "all"):
        with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-replicate' for queue"):
            queue_level(vhost, word)
        with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-replicate' for exchange"):
            exchange_level(vhost, word)


def test_the_exchanges_of_the_broker_have_level_all() -> None:
    vhost = member(NONE)
    vhost.apply(SetPolicy("p", ".*", {"replicate": "none"}), 0)
    assert {exchange.level for exchange in vhost.exchanges.values()} == {ALL}
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-replicate'"):
        exchange_level(vhost, "none", "amq.topic")


def test_what_is_transient_or_exclusive_is_never_replicated() -> None:
    """The default and policies do not apply to it, and an argument that asks for copies is refused."""
    vhost = member()
    vhost.apply(SetPolicy("p", ".*", {"replicate": "all"}), 0)
    assert queue_level(vhost, name="transient", durable=False) is NONE
    assert queue_level(vhost, "none", "said", durable=False) is NONE
    vhost.apply(DeclareQueue("exclusive", durable=True, exclusive=True, connection=1), 0)
    assert vhost.queue("exclusive").level is NONE
    with pytest.raises(PreconditionFailed, match="not durable, so its level can only be 'none'"):
        queue_level(vhost, "all", "other", durable=False)
    arguments: dict[str, object] = {"x-replicate": "configuration"}
    asked = DeclareQueue("o", exclusive=True, arguments=arguments, connection=1)
    with pytest.raises(PreconditionFailed, match="ends with its connection"):
        vhost.apply(asked, 0)


def test_streams_have_level_all() -> None:
    vhost = member(NONE)
    vhost.apply(SetPolicy("p", ".*", {"replicate": "none"}), 0)
    vhost.apply(DeclareQueue("s", durable=True, arguments={"x-queue-type": "stream"}), 0)
    assert vhost.queue("s").level is ALL
    arguments: dict[str, object] = {"x-queue-type": "stream", "x-replicate": "none"}
    with pytest.raises(PreconditionFailed, match="x-replicate"):
        vhost.apply(DeclareQueue("t", durable=True, arguments=arguments), 0)


def test_partitioned_streams_have_level_all() -> None:
    vhost = VirtualHost("/", SharedServices())
    kind = "x-partitioned-stream"
    arguments: dict[str, object] = {"x-partitions": 2, "x-replicate": "none"}
    with pytest.raises(PreconditionFailed, match="its partitions are streams"):
        vhost.apply(DeclareExchange("x", kind, durable=True, arguments=arguments), 0)
    assert not vhost.queues


def test_an_operator_policy_cannot_set_a_level() -> None:
    with pytest.raises(PreconditionFailed, match="replicate are not recognised"):
        member().apply(SetOperatorPolicy("p", ".*", {"replicate": "none"}), 0)


def test_a_recorded_level_is_taken_and_none_recorded_means_all() -> None:
    """A declaration without a level was recorded by a server on its own, or before there were levels."""
    vhost = member(NONE)
    vhost.shared.decides = False
    vhost.apply(DeclareQueue("old", durable=True, arguments={"x-replicate": "none"}), 0)
    vhost.apply(DeclareQueue("new", durable=True, replicate="configuration"), 0)
    vhost.apply(DeclareExchange("old", "topic", durable=True), 0)
    vhost.apply(DeclareExchange("new", "topic", durable=True, replicate="none"), 0)
    assert [vhost.queue(name).level for name in ("old", "new")] == [ALL, CONFIGURATION]
    assert [vhost.exchange(name).level for name in ("old", "new")] == [ALL, NONE]


def test_a_record_with_an_unknown_level_cannot_be_read() -> None:
    text = encode_change(Change("/", DeclareQueue("q", durable=True, replicate="none"), 0))
    assert decode_change(text).command == DeclareQueue("q", durable=True, replicate="none")
    with pytest.raises(ValueError, match="some"):
        decode_change(text.replace(b'"none"', b'"some"'))


@pytest.mark.parametrize(
    "rows",
    [
        {"queues": [{"name": "q", "durable": True, "arguments": {"x-replicate": "some"}}]},
        {
            "exchanges": [
                {"name": "x", "type": "topic", "durable": True, "arguments": {"x-replicate": 1}}
            ]
        },
        {"policies": [{"name": "p", "pattern": ".*", "definition": {"replicate": "some"}}]},
    ],
    ids=["queue", "exchange", "policy"],
)
def test_definitions_with_an_unknown_level_are_refused(
    rows: dict[str, list[dict[str, object]]],
) -> None:
    state = BrokerState(MachineEntropy())
    state.shared.replication = ReplicationTest(ALL, True)
    put_defaults(state, 0)
    for row_list in rows.values():
        for row in row_list:
            row["vhost"] = "/"
    with pytest.raises(DefinitionsRefused, match="replicat"):
        rehearse(parse(rows, None, NewPasswords(MachineEntropy())), state, 0)
