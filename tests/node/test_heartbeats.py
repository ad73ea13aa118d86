"""Heartbeats overtake output that waits for the journal; nothing else does."""

from __future__ import annotations

from penstock.client.events import Replied
from penstock.formats.amqp091_frames import HEARTBEAT
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp10.framing import HEARTBEAT as HEARTBEAT_10
from penstock.wire.amqp10.limits import Limits as Limits10
from penstock.wire.amqp10.performatives_generated import Attach, Source, Target
from tests.broker.store.durable_house import DurableHouse
from tests.dialects.amqp10.doubles import House as House10
from tests.dialects.amqp10.doubles import KeepingSender
from tests.dialects.amqp10.doubles import Peer as Peer10
from tests.dialects.amqp10.transactions.test_transactions import LateDisk
from tests.seeds.doubles import NOW, Peer

BEAT_MS = 30_000


def waiting(house: DurableHouse) -> Peer:
    """A client whose declare-ok waits for the journal."""
    peer = house.client()
    house.flushed()
    peer.events.clear()
    peer.conversation.call(1, m.QueueDeclare(queue="q", durable=True))
    house.settle()
    assert peer.transport.take() == b""
    return peer


def test_a_heartbeat_is_written_ahead_of_a_reply_that_waits_for_the_journal() -> None:
    house = DurableHouse()
    peer = waiting(house)
    now = NOW + BEAT_MS
    house.node.sweep(now, now)
    assert peer.transport.writes == [HEARTBEAT], "and nothing else"
    peer.hear()
    assert peer.events == []
    house.flushed()
    [replied] = peer.events
    assert isinstance(replied, Replied) and isinstance(replied.method, m.QueueDeclareOk)


def test_heartbeats_go_on_for_as_long_as_the_journal_takes() -> None:
    house = DurableHouse()
    peer = waiting(house)
    for count in range(1, 6):
        now = NOW + count * BEAT_MS
        peer.connection.received(HEARTBEAT, now)
        house.node.sweep(now, now)
        house.node.flush(now)
    assert peer.transport.writes == [HEARTBEAT] * 5
    house.flushed()
    assert len(peer.events) == 1


def test_a_heartbeat_stays_behind_output_that_is_only_pending() -> None:
    house = DurableHouse()
    peer = waiting(house)
    house.flushed()
    peer.conversation.call(1, m.BasicQos(0, 5, False))
    peer.connection.received(peer.said(), NOW)
    now = NOW + BEAT_MS
    house.node.sweep(now, now)
    assert peer.transport.writes == []
    house.node.flush(now)
    written = peer.transport.take()
    assert written.endswith(HEARTBEAT) and len(written) > len(HEARTBEAT)


def test_an_amqp_1_0_heartbeat_is_written_ahead_of_an_attach_that_waits() -> None:
    disk = LateDisk()
    house = House10(disk)
    peer = house.connect(limits=Limits10(idle_ms=10_000))
    session = peer.begin()
    disk.is_late = True
    link = peer.wire.attach_sender(
        session, "s", KeepingSender(), Attach(source=Source(), target=Target("new"))
    )
    house.settle()
    assert link not in peer.attached, "it waits"
    house.node.sweep(house.now + 20_000, house.now + 20_000)
    assert peer.transport.take() == HEARTBEAT_10
    disk.answer_flushes(house.now)
    house.settle()
    assert link in peer.attached


def test_nothing_comes_before_an_open_that_waits_with_its_attach() -> None:
    """A client may say everything at once: its open, begin and attach are one read, and the answer to
    all of it waits for the queue that the attach creates.
    """
    disk = LateDisk()
    house = House10(disk)
    peer = Peer10(house, "client", "", "", "guest", Limits10(idle_ms=10_000))
    peer.wire.open()
    peer._says_open = False
    session = peer.wire.begin()
    peer.wire.attach_sender(
        session, "s", KeepingSender(), Attach(source=Source(), target=Target("new"))
    )
    disk.is_late = True
    peer.connection.received(peer.said(), house.now)
    house.node.flush(house.now)
    assert peer.transport.written == b"", "all of it waits"
    house.node.sweep(house.now + 20_000, house.now + 20_000)
    assert peer.transport.written == b""
    house.peers.append(peer)
    disk.answer_flushes(house.now)
    house.settle()
    assert peer.opened is not None and not peer.is_over


def test_a_silent_amqp_1_0_client_gets_nothing_that_is_not_durable_with_its_close() -> None:
    disk = LateDisk()
    house = House10(disk)
    peer = house.connect()
    session = peer.begin()
    disk.is_late = True
    link = peer.wire.attach_sender(
        session, "s", KeepingSender(), Attach(source=Source(), target=Target("new"))
    )
    house.settle()
    now = house.now + 10 * house.node.amqp10.limits.idle_ms
    house.node.sweep(now, now)
    assert peer.transport.is_closed
    peer.wire.receive(peer.transport.take(), now)
    assert peer.connection_fault == "amqp:resource-limit-exceeded"
    assert link not in peer.attached
