"""From the protocol header to connection.open-ok, and connection.close."""

from __future__ import annotations

import pika.exceptions
import pika.frame
import pytest
from pika import spec

from tests.behaviour.expectations import expect_connection_close, expect_violation
from tests.behaviour.raw import (
    PROTOCOL_HEADER,
    BrokerSilentError,
    RawConnection,
    amqplain,
    frame,
    plain,
)
from tests.behaviour.target import BrokerUnderTest

LOGIN_REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {}. "
    "For details see the broker logfile."
)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"GET / HT", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01", id="tls"),
        pytest.param(b"AMQP\x00\x00\x09\x00", id="0-9-0"),
        pytest.param(b"AMQP\x01\x01\x00\x0a", id="0-10"),
        pytest.param(b"AMQP\x09\x09\x09\x09", id="9-9-9"),
    ],
)
def test_a_wrong_protocol_header_is_answered_with_the_right_one(
    broker: BrokerUnderTest, header: bytes
) -> None:
    connection = broker.raw()
    connection.send(header)
    assert connection.read_bytes(8) == PROTOCOL_HEADER
    assert connection.is_hung_up()


def test_a_header_may_come_octet_by_octet(broker: BrokerUnderTest) -> None:
    connection = broker.raw()
    for octet in PROTOCOL_HEADER:
        connection.send(bytes([octet]))
    assert connection.expect(spec.Connection.Start, 0)


def test_the_server_offers_its_version_mechanisms_and_locale(broker: BrokerUnderTest) -> None:
    start = broker.raw().start()
    assert (start.version_major, start.version_minor) == (0, 9)
    assert {b"PLAIN", b"AMQPLAIN"} <= set(start.mechanisms.split())
    assert start.locales == b"en_US"


def test_the_server_names_itself_and_its_capabilities(broker: BrokerUnderTest) -> None:
    connection = broker.raw()
    connection.start()
    properties = connection.server_properties
    assert {"capabilities", "product", "version", "platform", "cluster_name"} <= set(properties)
    assert properties["capabilities"] == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }


def test_the_server_proposes_rabbitmqs_limits(broker: BrokerUnderTest) -> None:
    tune = broker.raw_open().tune
    assert tune is not None
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


def test_amqplain_logs_in(broker: BrokerUnderTest) -> None:
    connection = broker.raw()
    connection.login(amqplain(broker.user, broker.password), "AMQPLAIN")
    assert connection.expect(spec.Connection.Tune, 0)


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_a_wrong_password_is_refused_with_403(broker: BrokerUnderTest, mechanism: str) -> None:
    connection = broker.raw()
    response = {"PLAIN": plain, "AMQPLAIN": amqplain}[mechanism](broker.user, "wrong")
    connection.login(response, mechanism)
    close = expect_connection_close(connection, 403, LOGIN_REFUSED.format(mechanism))
    assert (close.class_id, close.method_id) == (0, 0)


def test_an_unknown_user_is_refused_as_a_wrong_password_is(broker: BrokerUnderTest) -> None:
    connection = broker.raw()
    connection.login(plain("nobody", "nothing"))
    expect_connection_close(connection, 403, LOGIN_REFUSED.format("PLAIN"))


def test_pika_sees_a_wrong_password_as_an_authentication_error(broker: BrokerUnderTest) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="ACCESS_REFUSED"):
        broker.connect(password="wrong")


def test_without_the_capability_a_refused_login_is_only_a_hang_up(broker: BrokerUnderTest) -> None:
    # RabbitMQ takes three seconds for this, so that passwords are not tried fast.
    connection = broker.raw()
    connection.login(plain(broker.user, "wrong"), client_properties={})
    with pytest.raises(BrokerSilentError, match="hung up"):
        connection.read_frame()


def refusal_of(connection: RawConnection) -> int:
    """The code of its connection.close; 0 for a hang-up without a word."""
    try:
        answer = connection.read_frame()
    except BrokerSilentError as silence:
        if "hung up" in str(silence):
            return 0
        raise
    assert isinstance(answer, pika.frame.Method)
    assert isinstance(answer.method, spec.Connection.Close), f"not refused: {answer.method}"
    code: int = answer.method.reply_code
    return code


def check_refused(broker: BrokerUnderTest, attempts: dict[RawConnection, int]) -> None:
    """Each attempt is refused: by Penstock with the code given, by RabbitMQ in most cases with a
    hang-up after three seconds.
    """
    codes = {attempt: refusal_of(attempt) for attempt in attempts}
    if not broker.is_rabbitmq:
        assert list(codes.values()) == list(attempts.values())


def upto_tune(broker: BrokerUnderTest) -> RawConnection:
    connection = broker.raw()
    connection.login(plain(broker.user, broker.password))
    connection.expect(spec.Connection.Tune, 0)
    return connection


def test_a_senseless_login_never_reaches_tune(broker: BrokerUnderTest) -> None:
    attempts = {}
    for mechanism, response, code in (
        ("BOGUS", "x", 530),
        ("PLAIN", "no nulls", 403),
        ("AMQPLAIN", "xx", 403),
    ):
        attempt = broker.raw()
        attempt.login(response, mechanism)
        attempts[attempt] = code
    check_refused(broker, attempts)


def test_a_tune_ok_outside_the_proposed_limits_ends_the_handshake(broker: BrokerUnderTest) -> None:
    # Zero means no limit, which is more than the server proposed.
    attempts = {}
    for limits in ((65535, 131072), (0, 131072), (2047, 200000), (2047, 0), (2047, 100)):
        attempt = upto_tune(broker)
        attempt.send_method(0, spec.Connection.TuneOk(*limits, 0))
        attempts[attempt] = 530
    check_refused(broker, attempts)


def test_what_is_out_of_turn_ends_the_handshake(broker: BrokerUnderTest) -> None:
    garbage, too_long = broker.raw(), broker.raw()
    garbage.start()
    garbage.send(b"\xff" * 20)
    # A start-ok beyond 131072 octets.
    too_long.login(
        plain(broker.user, broker.password), client_properties={"product": "x" * 200_000}
    )
    open_too_early, start_ok_twice = upto_tune(broker), upto_tune(broker)
    open_too_early.send_method(0, spec.Connection.Open("/"))
    start_ok_twice.send_method(0, spec.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"))
    check_refused(broker, {garbage: 501, too_long: 501, open_too_early: 503, start_ok_twice: 503})


@pytest.mark.parametrize("vhost", ["no-such-vhost", ""])
def test_an_unknown_vhost_is_refused_with_530(broker: BrokerUnderTest, vhost: str) -> None:
    connection = upto_tune(broker)
    connection.send_method(0, spec.Connection.TuneOk(2047, 131072, 0))
    connection.send_method(0, spec.Connection.Open(vhost))
    close = expect_connection_close(connection, 530, f"NOT_ALLOWED - vhost {vhost} not found")
    assert (close.class_id, close.method_id) == (10, 40)


def test_the_client_may_lower_every_limit(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open(channel_max=3, frame_max=4096, heartbeat=30)
    connection.open_channel(3)


@pytest.mark.parametrize(
    ("method", "ids"),
    [
        (spec.Connection.Open("/"), (10, 40)),
        (spec.Connection.TuneOk(2047, 131072, 0), (10, 31)),
        (spec.Connection.CloseOk(), (10, 51)),
        (spec.Channel.Open(), (20, 10)),
        (spec.Basic.Qos(), (60, 10)),
    ],
    ids=["open", "tune-ok", "close-ok", "channel.open", "basic.qos"],
)
def test_channel_0_of_an_open_connection_takes_no_such_method(
    broker: BrokerUnderTest, method: object, ids: tuple[int, int]
) -> None:
    connection = broker.raw_open()
    connection.send_method(0, method)
    close = expect_violation(broker, connection, 504, 503)
    assert (close.class_id, close.method_id) == ids


def test_a_close_is_answered(broker: BrokerUnderTest) -> None:
    # Who closes the socket then is left open; RabbitMQ waits for the client.
    connection = broker.raw_open()
    connection.call(0, spec.Connection.Close(200, "bye", 0, 0), spec.Connection.CloseOk)


def test_after_a_connection_error_the_broker_waits_for_close_ok(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send_method(1, spec.Channel.Open())
    expect_violation(broker, connection, 504)
    # What was on its way is ignored.
    connection.send_method(1, spec.Basic.Qos())
    connection.send_method(0, spec.Connection.CloseOk())
    with pytest.raises(BrokerSilentError, match="hung up"):
        connection.read_frame()


@pytest.mark.parametrize("secret", ["guest", "nonsense"])
def test_update_secret_is_acknowledged_and_the_connection_goes_on(
    broker: BrokerUnderTest, secret: str
) -> None:
    # RabbitMQ checks a new secret only with backends that expire; a password stays as it was.
    connection = broker.raw_open()
    update = spec.Connection.UpdateSecret(secret, "token expires")
    connection.call(0, update, spec.Connection.UpdateSecretOk)
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)


def test_the_server_sends_heartbeats_at_the_interval_agreed(broker: BrokerUnderTest) -> None:
    # RabbitMQ sends two per interval.
    connection = broker.raw_open(heartbeat=1)
    assert isinstance(connection.read_frame(1.5), pika.frame.Heartbeat)


def test_a_silent_client_is_dropped_after_missing_heartbeats(broker: BrokerUnderTest) -> None:
    # The spec says after two intervals; RabbitMQ needs up to three.
    assert broker.raw_open(heartbeat=1).is_hung_up(5.0)


def test_heartbeats_keep_a_quiet_connection_open(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open(heartbeat=1)
    for _ in range(7):
        assert isinstance(connection.read_frame(1.5), pika.frame.Heartbeat)
        connection.send(frame(8, 0, b""))
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)
