"""Streams are refused where they would not be replicated."""

from __future__ import annotations

import pytest

from penstock.broker.access.new_password import NewPasswords
from penstock.broker.arguments import STREAM
from penstock.broker.definitions.parsing import DefinitionsRefused, parse
from penstock.broker.definitions.rehearsal import rehearse
from penstock.broker.errors import NotImplementedHere
from penstock.broker.queues.guarded_queue import NoStreamMaker
from penstock.broker.replication_level import ReplicationLevel, ReplicationTest
from penstock.broker.state import BrokerState, put_defaults
from penstock.broker.topology import AddVhost, DeclareExchange, DeclareQueue
from penstock.server.world.entropy import MachineEntropy


def replicated() -> BrokerState:
    state = BrokerState(MachineEntropy())
    state.shared.replication = ReplicationTest(ReplicationLevel.ALL, True)
    state.shared.kinds.add(STREAM, NoStreamMaker())
    put_defaults(state, 0)
    return state


def test_a_stream_is_not_implemented_in_a_cluster() -> None:
    vhost = replicated().vhost("/")
    with pytest.raises(NotImplementedHere, match="not replicated yet"):
        vhost.apply(DeclareQueue("s", durable=True, arguments={"x-queue-type": "stream"}), 0)
    assert "s" not in vhost.queues


def test_nor_is_a_partitioned_stream() -> None:
    vhost = replicated().vhost("/")
    with pytest.raises(NotImplementedHere, match=r"exchange 's'.*not replicated yet"):
        vhost.apply(
            DeclareExchange(
                "s", "x-partitioned-stream", durable=True, arguments={"x-partitions": 2}
            ),
            0,
        )
    assert "s" not in vhost.exchanges


def test_nor_is_stream_as_the_default_queue_type() -> None:
    state = replicated()
    with pytest.raises(NotImplementedHere, match="default queue type"):
        state.apply(AddVhost("v", default_queue_type="stream"), 0)
    assert "v" not in state.vhosts
    with pytest.raises(NotImplementedHere, match="default queue type"):
        state.apply(AddVhost("/", default_queue_type="stream"), 0)
    assert state.vhost("/").default_queue_type == ""


def test_definitions_with_a_stream_are_refused_with_the_reason() -> None:
    row = {"name": "s", "vhost": "/", "durable": True, "auto_delete": False}
    definitions = {"queues": [{**row, "arguments": {"x-queue-type": "stream"}}]}
    with pytest.raises(DefinitionsRefused, match="not replicated yet"):
        rehearse(parse(definitions, None, NewPasswords(MachineEntropy())), replicated(), 0)
