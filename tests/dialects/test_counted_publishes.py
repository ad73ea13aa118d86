"""What a ledger hears of publishes, whichever protocol they come over."""

from collections import Counter

from penstock.broker.ledger.ledger import is_ledger
from penstock.formats import ledger_records as records
from penstock.node.configuration import NodeConfiguration
from penstock.node.node import Node
from penstock.storage.memory_disk import MemoryDisk
from penstock.wire.amqp091 import methods_generated as m
from tests.broker.doubles import CountingEntropy
from tests.dialects.amqp10.doubles import House as House10
from tests.dialects.amqp10.doubles import Peer as Peer10
from tests.dialects.amqp10.doubles import PromptLogins
from tests.dialects.amqp10.transactions.transaction_doubles import Controller, post
from tests.seeds.doubles import NOW, House, KeptLogins, Peer

WITH_LEDGER = NodeConfiguration("1.2.3", "a test", "house", ledger=True)


def told(disk: MemoryDisk) -> tuple[Counter[str], list[tuple[str, int, int]]]:
    """Counts by exchange and key; publishers of runs with their first tag and count."""
    (octets,) = [bytes(disk.files[name].content) for name in disk.files if is_ledger(name)]
    routes: Counter[str] = Counter()
    published: list[tuple[str, int, int]] = []
    names: dict[int, str] = {}
    publishers: dict[int, str] = {0: ""}
    at = records.RECORD_SIZE
    while at < len(octets):
        _, event, detail, publisher, name, _, count, sequence = records.RECORD.unpack_from(
            octets, at
        )
        at += records.RECORD_SIZE
        if event == records.NAME:
            table = publishers if detail & records.IS_PUBLISHER else names
            table[name] = octets[at : at + count].decode().replace("\0", " ")
            at += -(-count // records.RECORD_SIZE) * records.RECORD_SIZE
        elif event == records.ROUTED:
            routes[names[name]] += count
        elif event == records.ENQUEUED:
            published.append((publishers[publisher], sequence, count))
    return routes, published


class LedgerHouse(House):
    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.logins = KeptLogins()
        self.node = Node(WITH_LEDGER, CountingEntropy(), self.logins, NOW, 0, self.disk)
        self.peers: list[Peer] = []

    def told(self) -> tuple[Counter[str], list[tuple[str, int, int]]]:
        self.node.sweep(NOW, 1000)
        return told(self.disk)


class LedgerHouse10(House10):
    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.now = 1
        self.logins = PromptLogins()
        self.node = Node(WITH_LEDGER, CountingEntropy(), self.logins, self.now, 0, self.disk)
        self.peers: list[Peer10] = []


def test_publishes_are_counted_whether_they_reach_a_queue_or_not() -> None:
    house = LedgerHouse()
    peer = house.client()
    peer.call(m.QueueDeclare(queue="q"))
    peer.publish("q", b"1", b"2")
    peer.publish("nowhere", b"3")
    peer.conversation.publish(1, "amq.topic", "eu.paris", b"4")
    house.settle()
    routes, published = house.told()
    assert routes == {"/  q": 2, "/  nowhere": 1, "/ amq.topic eu.paris": 1}
    assert published == [("", 0, 2)]


def test_publishes_of_a_transaction_count_when_it_is_committed() -> None:
    house = LedgerHouse()
    peer = house.client()
    peer.call(m.QueueDeclare(queue="q"))
    peer.call(m.TxSelect())
    peer.publish("q", b"1", b"2")
    peer.call(m.TxRollback())
    peer.publish("q", b"3")
    peer.call(m.TxCommit())
    assert house.told()[0] == {"/  q": 1}


def test_a_named_connection_with_confirms_is_known_by_its_name_and_tags() -> None:
    house = LedgerHouse()
    peer = house.client("orders-7")
    peer.call(m.ConfirmSelect())
    peer.call(m.QueueDeclare(queue="q"))
    peer.publish("nowhere", b"1")
    peer.publish("q", b"2", b"3")
    house.settle()
    assert house.told()[1] == [("/ orders-7/1 1", 2, 2)]


def test_a_name_that_is_no_good_is_none() -> None:
    for name in ("x" * 256, "a\0b", ""):
        house = LedgerHouse()
        peer = house.client(name)
        peer.call(m.ConfirmSelect())
        peer.call(m.QueueDeclare(queue="q"))
        peer.publish("q", b"1")
        house.settle()
        ((publisher, _, count),) = house.told()[1]
        assert (publisher, count) == ("", 1)


def test_transfers_of_amqp_1_0_are_counted_on_the_short_way_and_on_the_long_one() -> None:
    house = LedgerHouse10()
    peer = house.connect()
    session = peer.begin()
    house.declare("q")
    sender = peer.sender(session, "/queues/q")
    sender.send(b"1")
    sender.send(b"2", b"3")
    sender.send(b"4", settled=True)
    house.node.sweep(house.now, 1000)
    assert told(house.disk)[0] == {"/  q": 4}


def test_transfers_in_a_transaction_of_amqp_1_0_count_when_it_is_committed() -> None:
    house = LedgerHouse10()
    peer = house.connect()
    session = peer.begin()
    house.declare("q")
    sender = peer.sender(session, "/queues/q")
    controller = Controller(peer, session)
    given_up, kept = controller.declare(), controller.declare()
    post(sender, given_up, b"1", b"2")
    post(sender, kept, b"3")
    house.settle()
    assert controller.rollback(given_up) == "accepted"
    assert controller.commit(kept) == "accepted"
    house.node.sweep(house.now, 1000)
    assert told(house.disk)[0] == {"/  q": 1}
