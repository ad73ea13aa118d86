"""The sans-IO conversation against the wire's own server role, in memory and without time."""

from __future__ import annotations

import pytest

from penstock.client.encoding import encode_publish
from penstock.client.errors import (
    ChannelClosedError,
    ClientError,
    ConnectionClosedError,
    LoginRefused,
    ReplyError,
    TransactionAborted,
    TransactionUnknown,
)
from penstock.client.events import (
    Blocked,
    ChannelClosed,
    Confirmed,
    ConnectionClosed,
    ConsumerCancelled,
    Delivered,
    Event,
    Flow,
    Opened,
    Replied,
    Returned,
    Unblocked,
)
from penstock.client.uri import Address
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.speaker import MISSED_INTERVALS
from tests.client.doubles import Stage, opened
from tests.wire.doubles import GreetingServer


class RefusingServer(GreetingServer):
    """Answers every login with a close."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__()
        self.fault = ConnectionFault(code, text)

    def method_received(self, channel: int, method: m.Method) -> None:
        if isinstance(method, m.ConnectionStartOk):
            raise self.fault
        super().method_received(channel, method)


def only(events: list[Event]) -> Event:
    assert len(events) == 1, events
    return events[0]


def test_the_handshake_ends_with_opened() -> None:
    stage = Stage(Address(user="ann", password="secret", vhost="orders"))
    assert only(stage.transfer()) == Opened({})
    start_ok, _, connection_open = stage.heard()
    assert isinstance(start_ok, m.ConnectionStartOk)
    assert start_ok.response == b"\0ann\0secret"
    assert start_ok.client_properties["connection_name"] == "test"
    assert isinstance(connection_open, m.ConnectionOpen)
    assert connection_open.virtual_host == "orders"


def test_the_handshake_does_not_mind_how_its_bytes_are_split() -> None:
    assert only(Stage().transfer(split=1)) == Opened({})


def test_the_smaller_limits_win() -> None:
    stage = Stage(
        Address(frame_max=8192, channel_max=10, heartbeat_seconds=30),
        Limits(frame_max=65536, channel_max=5, heartbeat_seconds=20),
    )
    stage.transfer()
    assert stage.client.frame_max == 8192
    assert stage.client.heartbeat_seconds == 20
    for _ in range(5):
        stage.client.open_channel()
    with pytest.raises(ClientError, match="all 5 channels"):
        stage.client.open_channel()


def test_a_client_that_wants_no_heartbeats_gets_none() -> None:
    stage = Stage(Address(heartbeat_seconds=0))
    stage.transfer()
    assert stage.client.heartbeat_seconds == 0


@pytest.mark.parametrize("code", [403, 530])
def test_a_refused_login_says_so(code: int) -> None:
    event = only(Stage(server=RefusingServer(code, "not you")).transfer())
    assert isinstance(event, ConnectionClosed)
    assert isinstance(event.error, LoginRefused)
    assert event.error.code == code
    assert "not you" in event.error.text


def test_a_broker_that_dies_during_the_login_is_no_refusal() -> None:
    event = only(Stage().client.lost())
    assert isinstance(event, ConnectionClosed)
    assert type(event.error) is ConnectionClosedError


def test_answers_carry_the_ticket_of_their_call() -> None:
    stage = opened()
    first = stage.client.call(1, m.QueueDeclare("a"))
    second = stage.client.call(1, m.QueueDeclare("b"))
    stage.transfer()
    stage.say(1, m.QueueDeclareOk("a"))
    reply = only(stage.say(1, m.QueueDeclareOk("b")))
    assert isinstance(reply, Replied)
    assert reply.ticket == second != first
    assert reply.method == m.QueueDeclareOk("b")


def test_an_answer_to_nothing_ends_the_connection() -> None:
    stage = opened()
    events = stage.say(1, m.QueueDeclareOk("a"))
    assert [type(event) for event in events] == [ChannelClosed, ConnectionClosed]
    assert isinstance(events[1], ConnectionClosed)
    assert events[1].error is not None
    assert events[1].error.code == 505


def test_a_delivery_is_read_without_losing_a_word() -> None:
    stage = opened()
    deliver = m.BasicDeliver("ctag", 1 << 40, True, "exchange", "key")
    stage.say_content(1, deliver, b"body", BasicProperties(message_id="id"))
    event = only(stage.transfer())
    assert isinstance(event, Delivered)
    assert (event.channel, event.consumer_tag) == (1, "ctag")
    assert (event.delivery_tag, event.redelivered) == (1 << 40, True)
    assert (event.exchange, event.routing_key) == ("exchange", "key")
    assert event.body == b"body"
    assert event.properties.message_id == "id"


def test_a_get_is_answered_by_a_message_or_by_nothing() -> None:
    stage = opened()
    full = stage.client.call(1, m.BasicGet("q"))
    empty = stage.client.call(1, m.BasicGet("q"))
    stage.say_content(1, m.BasicGetOk(7, False, "exchange", "key", 3), b"body")
    found, nothing = stage.transfer() + stage.say(1, m.BasicGetEmpty())
    assert isinstance(found, Replied)
    assert isinstance(nothing, Replied)
    assert (found.ticket, found.messages_left) == (full, 3)
    assert found.message is not None
    assert (found.message.delivery_tag, found.message.routing_key) == (7, "key")
    assert (nothing.ticket, nothing.message) == (empty, None)


def test_a_body_larger_than_a_frame_goes_out_in_pieces() -> None:
    stage = opened()
    body = bytes(range(256)) * 2000
    stage.client.publish(1, "exchange", "key", body, BasicProperties(priority=3))
    stage.transfer()
    ((_, method, _, received),) = stage.server.named("content")
    assert method == m.BasicPublish("exchange", "key").encode()
    assert received == body


def test_confirms_settle_the_notes_left_with_publishes() -> None:
    stage = opened()
    stage.client.call(1, m.ConfirmSelect())
    assert [stage.client.publish(1, "", "q", b"", note=note) for note in "abc"] == [1, 2, 3]
    assert stage.client.outstanding(1) == 3
    stage.say(1, m.ConfirmSelectOk())
    acked = only(stage.say(1, m.BasicAck(2, multiple=True)))
    nacked = only(stage.say(1, m.BasicNack(3)))
    assert isinstance(acked, Confirmed)
    assert isinstance(nacked, Confirmed)
    assert ([part.note for part in acked.settled], acked.nack) == (["a", "b"], False)
    assert ([part.note for part in nacked.settled], nacked.nack) == (["c"], True)
    assert stage.client.outstanding(1) == 0


def test_without_confirms_a_publish_has_no_tag() -> None:
    stage = opened()
    assert stage.client.publish(1, "", "q", b"") == 0
    assert stage.client.outstanding(1) == 0


def test_a_return_says_why() -> None:
    stage = opened()
    stage.say_content(1, m.BasicReturn(312, "NO_ROUTE", "exchange", "key"), b"body")
    event = only(stage.transfer())
    assert isinstance(event, Returned)
    assert (event.code, event.text, event.body) == (312, "NO_ROUTE", b"body")
    assert (event.exchange, event.routing_key) == ("exchange", "key")


def test_a_closed_channel_leaves_the_connection_and_its_sisters_alone() -> None:
    stage = opened(channels=2)
    stage.client.call(1, m.QueueDeclare("q", passive=True))
    stage.transfer()
    stage.server.connection.close_channel(1, ChannelFault(404, "no queue"))
    event = only(stage.transfer())
    assert isinstance(event, ChannelClosed)
    assert event.channel == 1
    assert isinstance(event.error, ChannelClosedError)
    assert event.error.code == 404
    with pytest.raises(ChannelClosedError):
        stage.client.call(1, m.QueueDeclare("q"))
    stage.client.call(2, m.QueueDeclare("q"))
    assert stage.client.opened
    # Its number is free again.
    assert stage.client.open_channel()[0] == 1


def test_a_closed_channel_hands_out_what_is_in_doubt() -> None:
    stage = opened()
    stage.client.call(1, m.ConfirmSelect())
    for note in "abc":
        stage.client.publish(1, "", "q", b"", note=note)
    stage.transfer()
    stage.say(1, m.ConfirmSelectOk())
    stage.say(1, m.BasicAck(1))
    assert [part.note for part in stage.client.in_doubt(1)] == ["b", "c"]
    closed, ended = stage.client.lost()
    assert isinstance(closed, ChannelClosed)
    assert [part.note for part in closed.in_doubt] == ["b", "c"]
    assert isinstance(ended, ConnectionClosed)
    assert ended.error is not None


def transaction_error(stage: Stage) -> ReplyError | None:
    closed = next(event for event in stage.client.lost() if isinstance(event, ChannelClosed))
    return closed.transaction


def in_transaction() -> Stage:
    stage = opened()
    stage.client.call(1, m.TxSelect())
    stage.transfer()
    stage.say(1, m.TxSelectOk())
    return stage


@pytest.mark.parametrize("work", ["publish", "encoded", "ack", "reject"])
def test_a_transaction_without_a_commit_is_aborted_with_its_connection(work: str) -> None:
    stage = in_transaction()
    if work == "publish":
        stage.client.publish(1, "", "q", b"")
    elif work == "encoded":
        stage.client.publish_encoded(1, b"", 1)
    else:
        stage.client.tell(1, m.BasicAck(1) if work == "ack" else m.BasicReject(1))
    error = transaction_error(stage)
    assert isinstance(error, TransactionAborted)
    assert "what was not committed" in str(error)


def test_a_transaction_whose_commit_has_no_answer_is_unknown() -> None:
    stage = in_transaction()
    stage.client.publish(1, "", "q", b"")
    stage.client.call(1, m.TxCommit())
    # What follows is lost in any case, and what came before may not be.
    stage.client.publish(1, "", "q", b"")
    error = transaction_error(stage)
    assert isinstance(error, TransactionUnknown)
    assert "may have been committed or not" in str(error)


@pytest.mark.parametrize("end", [m.TxCommit(), m.TxRollback()])
def test_a_transaction_that_has_ended_leaves_nothing(end: m.Method) -> None:
    stage = in_transaction()
    stage.client.publish(1, "", "q", b"")
    stage.client.call(1, end)
    stage.transfer()
    stage.say(1, m.TxCommitOk() if isinstance(end, m.TxCommit) else m.TxRollbackOk())
    stage.client.tell(1, m.BasicRecoverAsync())
    assert transaction_error(stage) is None


def test_a_channel_that_the_broker_closes_says_why_and_nothing_of_its_transaction() -> None:
    stage = in_transaction()
    stage.client.publish(1, "", "q", b"")
    stage.client.call(1, m.TxCommit())
    stage.transfer()
    stage.server.connection.close_channel(1, ChannelFault(406, "too large"))
    closed = next(event for event in stage.transfer() if isinstance(event, ChannelClosed))
    assert closed.error is not None
    assert (closed.error.code, closed.transaction) == (406, None)


def test_an_orderly_close_has_no_error() -> None:
    stage = opened(channels=2)
    stage.client.close_channel(2)
    assert only(stage.transfer()) == ChannelClosed(2, None)
    stage.client.close()
    assert stage.transfer() == [ChannelClosed(1, None), ConnectionClosed(None)]
    assert stage.client.ended
    assert stage.client.lost() == []


def test_a_close_by_the_broker_reaches_every_channel_first() -> None:
    stage = opened(channels=2)
    stage.server.connection.close(ConnectionFault(320, "shutting down"))
    events = stage.transfer()
    assert [type(event) for event in events] == [ChannelClosed, ChannelClosed, ConnectionClosed]
    error = events[-1].error if isinstance(events[-1], ConnectionClosed) else None
    assert error is not None
    assert error.code == 320
    assert not isinstance(error, LoginRefused)


def test_a_channel_cannot_be_used_before_it_is_open() -> None:
    stage = opened()
    number, _ = stage.client.open_channel()
    with pytest.raises(ChannelClosedError):
        stage.client.publish(number, "", "q", b"would be lost")


def test_a_consumer_cancelled_by_the_broker_is_told_and_answered() -> None:
    stage = opened()
    assert stage.say(1, m.BasicCancel("one", no_wait=True)) == [ConsumerCancelled(1, "one")]
    assert stage.heard() == []
    assert stage.say(1, m.BasicCancel("two")) == [ConsumerCancelled(1, "two")]
    assert stage.heard() == [m.BasicCancelOk("two")]


def test_blocked_unblocked_and_flow_are_told() -> None:
    stage = opened()
    assert stage.say(0, m.ConnectionBlocked("memory")) == [Blocked("memory")]
    assert stage.say(0, m.ConnectionUnblocked()) == [Unblocked()]
    assert stage.say(1, m.ChannelFlow(False)) == [Flow(1, False)]
    assert stage.heard()[-1] == m.ChannelFlowOk(False)


def test_a_silent_broker_is_given_up_by_its_missing_heartbeats() -> None:
    stage = opened()
    patience = MISSED_INTERVALS * stage.client.heartbeat_seconds * 1000
    assert stage.client.tick(patience) == []
    events = stage.client.tick(patience + 1)
    assert [type(event) for event in events] == [ChannelClosed, ConnectionClosed]
    assert stage.client_transport.aborted


def test_a_broker_that_never_answers_the_greeting_is_given_up() -> None:
    stage = Stage()
    assert stage.client.tick(0) == []
    event = only(stage.client.tick(10_000))
    assert isinstance(event, ConnectionClosed)
    assert "handshake" in str(event.error)


def test_encoded_batches_are_counted_like_single_publishes() -> None:
    stage = opened()
    stage.client.call(1, m.ConfirmSelect())
    stage.transfer()
    stage.say(1, m.ConfirmSelectOk())
    stage.client.publish(1, "", "q", b"one")
    stage.transfer()
    ((_, method, header, body),) = stage.server.named("content")
    frames = encode_publish(1, "", "q", b"one", stage.client.frame_max)
    assert stage.client.publish_encoded(1, frames * 3, 3, "batch") == 2
    stage.server.calls.clear()
    stage.transfer()
    assert stage.server.named("content") == [(1, method, header, body)] * 3
    event = only(stage.say(1, m.BasicAck(3, multiple=True)))
    assert isinstance(event, Confirmed)
    assert [(part.note, list(part.tags)) for part in event.settled] == [
        (None, [1]),
        ("batch", [2, 3]),
    ]


def test_an_encoded_body_larger_than_a_frame_is_split() -> None:
    stage = opened()
    body = b"x" * 300_000
    stage.client.publish_encoded(
        1, encode_publish(1, "", "q", body, stage.client.frame_max, mandatory=True), 1
    )
    stage.transfer()
    ((_, method, _, received),) = stage.server.named("content")
    assert received == body
    assert method == m.BasicPublish("", "q", mandatory=True).encode()


def test_many_routes_and_tags_do_not_fill_the_memory() -> None:
    stage = opened()
    for index in range(2500):
        stage.client.publish(1, "", f"key{index}", b"")
        stage.say_content(1, m.BasicDeliver(f"tag{index}", index, False, "", ""), b"")
    events = stage.transfer()
    tags = [event.consumer_tag for event in events if isinstance(event, Delivered)]
    assert tags == [f"tag{index}" for index in range(2500)]
    keys = [m.BasicPublish.decode(call[1]).routing_key for call in stage.server.named("content")]  # type: ignore[arg-type]
    assert keys == [f"key{index}" for index in range(2500)]
