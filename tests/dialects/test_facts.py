"""What an operator sees of connections, channels and consumers, in both protocols."""

from penstock.dialects.facts import UNKNOWN, ChannelFacts
from penstock.wire.amqp091 import methods_generated as m
from tests.dialects.amqp10.doubles import House as House10
from tests.seeds.doubles import House, Peer

NOW = 1


def only_channel(peer: Peer) -> ChannelFacts:
    (found,) = peer.connection.protocol.channel_facts()
    return found


def test_a_connection_says_who_it_is_and_what_it_agreed_on() -> None:
    peer = House().client()
    facts = peer.connection.protocol.facts()
    assert (facts.protocol, facts.state) == ("AMQP 0-9-1", "running")
    assert (facts.user, facts.vhost, facts.mechanism) == ("guest", "/", "PLAIN")
    assert facts.frame_max > 0 and facts.channel_count == 1


def test_a_connection_counts_what_it_reads_and_writes() -> None:
    peer = House().client()
    before = (peer.connection.received_bytes, peer.connection.outgoing.sent_bytes)
    peer.call(m.QueueDeclare("q"))
    assert peer.connection.received_bytes > before[0]
    assert peer.connection.outgoing.sent_bytes > before[1]
    assert peer.connection.received_count > 0 and peer.connection.outgoing.sent_count > 0


def test_a_channel_counts_what_was_published_with_confirms_or_without() -> None:
    peer = House().client()
    peer.call(m.QueueDeclare("q"))
    assert only_channel(peer).published == UNKNOWN
    peer.publish("q", b"1", b"2")
    peer.house.settle()
    assert only_channel(peer).published == 2
    peer.call(m.ConfirmSelect(False))
    peer.publish("q", b"3")
    peer.house.settle()
    facts = only_channel(peer)
    assert (facts.published, facts.received_confirm, facts.confirmed) == (3, 1, 1)


def test_a_channel_in_confirm_mode_counts_publishes_and_confirms() -> None:
    peer = House().client()
    peer.call(m.QueueDeclare("q"))
    peer.call(m.ConfirmSelect(False))
    peer.publish("q", b"1", b"2")
    peer.house.settle()
    facts = only_channel(peer)
    assert facts.is_confirming
    assert (facts.published, facts.confirmed, facts.unconfirmed) == (2, 2, 0)


def test_deliveries_that_came_back_are_not_among_the_acknowledged_ones() -> None:
    peer = House().client()
    peer.call(m.QueueDeclare("q"))
    peer.call(m.BasicQos(0, 3, False))
    peer.call(m.BasicConsume("q", "tag"))
    peer.publish("q", b"1", b"2", b"3", b"4")
    peer.house.settle()
    peer.conversation.tell(1, m.BasicAck(1, False))
    peer.conversation.tell(1, m.BasicReject(2, False))
    peer.house.settle()
    facts = only_channel(peer)
    assert (facts.delivered, facts.acknowledged, facts.unacknowledged) == (4, 1, 2)
    assert (facts.delivered_unowned, facts.consumer_count) == (0, 1)


def test_a_channel_of_both_kinds_of_consumers_does_not_know_its_acknowledgements() -> None:
    peer = House().client()
    peer.call(m.QueueDeclare("q"))
    peer.call(m.QueueDeclare("r"))
    peer.call(m.BasicConsume("q", "one", no_ack=True))
    peer.publish("q", b"1")
    peer.house.settle()
    assert only_channel(peer).delivered_unowned == 1
    peer.call(m.BasicConsume("r", "two"))
    facts = only_channel(peer)
    assert (facts.delivered_unowned, facts.acknowledged) == (UNKNOWN, UNKNOWN)


def test_gets_are_counted_by_what_became_of_them() -> None:
    house = House()
    peer = house.client()
    peer.call(m.QueueDeclare("q"))
    peer.publish("q", b"1", b"2")
    peer.house.settle()
    peer.call(m.BasicGet("q", False))
    peer.call(m.BasicGet("q", True))
    peer.call(m.BasicGet("q", True))
    facts = only_channel(peer)
    assert (facts.got, facts.got_unowned, facts.got_empty) == (1, 1, 1)
    assert (facts.delivered, facts.acknowledged) == (2, 0)
    container = house.node.container
    assert (container.got_total, container.got_unowned_total, container.got_empty_total) == (
        1,
        1,
        1,
    )


def test_what_was_confirmed_on_a_channel_is_not_forgotten_when_it_ends() -> None:
    house = House()
    peer = house.client()
    peer.call(m.QueueDeclare("q"))
    peer.call(m.ConfirmSelect(False))
    peer.publish("q", b"1", b"2")
    peer.house.settle()
    peer.connection.protocol.lost(NOW)
    assert house.node.container.confirmed_on_ended == 2


def test_a_consumer_shows_what_its_client_asked_for() -> None:
    peer = House().client()
    peer.call(m.QueueDeclare("q"))
    peer.call(m.BasicQos(0, 7, False))
    peer.call(m.BasicConsume("q", "tag", exclusive=True, arguments={"x-priority": 3}))
    (facts,) = peer.connection.protocol.consumer_facts()
    assert (facts.channel, facts.tag, facts.queue) == (1, "tag", "q")
    assert facts.acknowledges and facts.is_exclusive and facts.is_active
    assert (facts.prefetch_count, facts.arguments) == (7, {"x-priority": 3})


def test_a_session_of_amqp_10_counts_over_its_links() -> None:
    house = House10()
    house.declare("q")
    client = house.connect()
    session = client.begin()
    client.sender(session, "/queues/q").send(b"1", b"2", b"3")
    client.receiver(session, "/queues/q")
    protocol = client.connection.protocol
    facts = protocol.facts()
    assert (facts.protocol, facts.state, facts.vhost) == ("AMQP 1.0", "running", "/")
    (channel,) = protocol.channel_facts()
    assert (channel.published, channel.delivered, channel.unacknowledged) == (3, 3, 3)
    (consumer,) = protocol.consumer_facts()
    assert (consumer.queue, consumer.acknowledges, consumer.is_active) == ("q", True, True)
