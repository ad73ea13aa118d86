"""A client and a server machine wired together say and hear the same however bytes are cut."""

import pytest

from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import Attach, Released, Source, Target, Transfer
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.sending import SentDelivery
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED
from tests.wire.amqp10.doubles import KeepingReceiver, Pair


def converse(seed: int | None) -> Pair:
    pair = Pair(seed, Limits(frame_max=700, incoming_window=20))
    session = pair.connect()
    client, server = pair.client, pair.server
    termini = (Source("s", filter_={"f": "x"}), Target("t"))
    receiver = client.connection.attach_receiver(
        session, "down", KeepingReceiver(client.calls), Attach(source=termini[0], target=termini[1])
    )
    sender = client.connection.attach_sender(
        session, "up", client.listener.sender, Attach(source=termini[0], target=termini[1])
    )
    receiver.offer(8)
    receiver.flow_if_needed()
    server.listener.sender.waiting = [b"d" * size for size in (1, 40, 300, 650, 5000, 40)]
    pair.transfer()
    (_, link) = server.listener.links
    assert isinstance(link, ReceivingLink)
    link.offer(30)
    link.flow_if_needed()
    pair.transfer()
    for size in (0, 1, 40, 100, 690, 3000):
        sender.send(SentDelivery(), b"head", b"u" * size)
        sender.send_settled(b"", b"v" * size)
        server.listener.sessions[0].flow_if_needed()
        pair.transfer()
    server.listener.sessions[0].settle(0, 4, OUTCOME_ACCEPTED)
    server.listener.sessions[0].settle(5, 11, Released())
    session.settle(0, 5, OUTCOME_ACCEPTED)
    pair.transfer()
    receiver.drain()
    pair.transfer()
    sender.send_as(Transfer(delivery_tag=b"half", settled=False), b"w" * 100)
    client.connection.detach(session, sender, None, True)
    pair.transfer()
    server.connection.end_session(server.listener.sessions[0], None)
    pair.transfer()
    client.connection.close(None)
    pair.transfer()
    return pair


@pytest.mark.parametrize("seed", range(40))
def test_bytes_and_calls_are_equal_whatever_the_split(seed: int) -> None:
    whole = converse(None)
    split = converse(seed)
    assert split.client_said == whole.client_said
    assert split.server_said == whole.server_said
    assert split.client.calls.all == whole.client.calls.all
    assert split.server.calls.all == whole.server.calls.all


def test_the_whole_conversation_was_heard() -> None:
    pair = converse(None)
    assert len(pair.server.calls.named("delivery")) == 13
    assert len(pair.client.calls.named("delivery")) == 6
    assert len(pair.client.calls.named("updated")) == 6
    assert len(pair.server.calls.named("updated")) == 6
    assert pair.client.calls.named("drained") == [("down",)]
    assert pair.server.calls.named("link_ended") == [("up", None, True)]
    assert pair.client.calls.named("session_ended") == [(None,)]
    assert pair.server.calls.named("connection_ended") == [(None,)]
