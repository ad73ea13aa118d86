"""Headers, SASL, open and close, time, and what the peer says ahead."""

import pytest

from penstock.formats.scram_keys import derive
from penstock.wire.amqp10.connection import Connection
from penstock.wire.amqp10.errors import ConnectionFault, LinkFault
from penstock.wire.amqp10.framing import (
    AMQP_FRAME,
    HEARTBEAT,
    PROTOCOL_HEADER,
    SASL_HEADER,
    encode_frame,
)
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import (
    Attach,
    Begin,
    Close,
    Data,
    Detach,
    End,
    Error,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Source,
    Target,
    Transfer,
)
from penstock.wire.amqp10.states import ConnectionState, Role, SaslState
from penstock.wire.amqp10.values import Composite
from penstock.wire.scram import ScramClient, ScramServer
from tests.wire.amqp10.doubles import (
    KeepingListener,
    Machine,
    Pair,
    frame,
    open_machine,
    sasl_frame,
)


def closed_with(machine: Machine) -> str:
    """The condition of the one close that the machine says."""
    closes = [said for _, said in machine.said() if isinstance(said, Close)]
    assert len(closes) == 1, closes
    assert closes[0].error is not None
    return closes[0].error.condition


def test_a_login_with_sasl_leads_to_an_open_connection() -> None:
    pair = Pair()
    pair.connect()
    assert pair.client.state() is pair.server.state() is ConnectionState.OPENED
    assert pair.client_said.startswith(SASL_HEADER)
    assert PROTOCOL_HEADER in pair.client_said
    assert pair.server.calls.named("sasl") == [(SaslInit("PLAIN", b"\x00guest\x00guest"),)]
    assert pair.client.calls.named("open") == [("server",)]


def test_everything_up_to_attach_may_be_said_ahead() -> None:
    machine = Machine(Role.SERVER, sasl=True)
    attach = Attach("in", 0, False, source=Source("s"), target=Target("t"))
    attach.initial_delivery_count = 0
    machine.receive(
        SASL_HEADER
        + sasl_frame(SaslInit("ANONYMOUS", b"x"))
        + PROTOCOL_HEADER
        + frame(0, Open("c"))
        + frame(0, Begin(None, 0, 10, 10))
        + frame(0, attach)
    )
    names = [said.wire_name() for _, said in machine.said()]
    assert names == ["sasl-mechanisms", "sasl-outcome", "open", "begin", "attach"]


class SlowListener(KeepingListener):
    """Answers neither a login nor an open by itself."""

    def sasl_received(self, frame: Composite) -> None:
        self.calls.add("sasl", frame)

    def open_received(self, opened: Open) -> None:
        self.calls.add("open", opened.container_id)


def slow_server(limits: Limits | None = None) -> Machine:
    machine = Machine(Role.SERVER, limits, sasl=True)
    machine.listener = SlowListener(machine.calls)
    machine.listener.connection = machine.connection
    machine.connection.listener = machine.listener
    return machine


def test_what_is_said_ahead_waits_for_an_answer_that_takes_time() -> None:
    machine = slow_server()
    ahead = PROTOCOL_HEADER + frame(0, Open("c")) + frame(0, Begin(None, 0, 10, 10))
    machine.receive(SASL_HEADER + sasl_frame(SaslInit("X")) + ahead[:20])
    machine.receive(ahead[20:25])
    machine.receive(ahead[25:])
    assert machine.connection.sasl is SaslState.AUTHENTICATING
    assert machine.calls.named("open") == []
    machine.connection.send_sasl(SaslOutcome(0))
    assert machine.calls.named("open") == [("c",)]
    assert machine.calls.named("begin") == []
    machine.connection.open()
    assert machine.calls.named("begin") == [(0,)]
    assert machine.connection.buffered() == 0


def test_no_more_than_the_limit_may_be_said_ahead() -> None:
    machine = slow_server(Limits(ahead_bytes_max=100))
    machine.receive(SASL_HEADER + sasl_frame(SaslInit("X")) + b"x" * 60)
    machine.receive(b"x" * 60)
    assert machine.state() is ConnectionState.ENDED
    ended = ("amqp:resource-limit-exceeded", False)
    assert machine.calls.named("connection_ended") == [(ended,)]


def test_a_failed_login_ends_the_connection_with_the_outcome() -> None:
    machine = slow_server()
    machine.receive(SASL_HEADER + sasl_frame(SaslInit("PLAIN", b"\0a\0b")))
    machine.connection.send_sasl(SaslOutcome(1))
    assert machine.said()[-1] == (0, SaslOutcome(1))
    assert machine.transport.closed
    assert machine.calls.named("connection_ended") == [(("amqp:unauthorized-access", False),)]


def test_a_client_whose_login_failed_hears_of_it() -> None:
    machine = Machine(Role.CLIENT)
    machine.connection.start(True)
    machine.receive(
        SASL_HEADER + sasl_frame(SaslMechanisms(["PLAIN"])) + sasl_frame(SaslOutcome(2))
    )
    assert machine.calls.named("connection_ended") == [(("amqp:unauthorized-access", True),)]
    assert machine.state() is ConnectionState.ENDED


class ScramListener(KeepingListener):
    """Plays SCRAM on either side."""

    def __init__(self, parent: KeepingListener, password: str) -> None:
        super().__init__(parent.calls)
        self.connection: Connection = parent.connection
        self.client = ScramClient("user", password, "client-nonce")
        self.server = ScramServer("server-nonce")

    def sasl_received(self, frame: Composite) -> None:
        self.calls.add("sasl", frame)
        connection = self.connection
        if isinstance(frame, SaslMechanisms):
            connection.send_sasl(SaslInit("SCRAM-SHA-256", self.client.start()))
        elif isinstance(frame, SaslInit):
            assert self.server.start(frame.initial_response or b"") == "user"
            challenge = self.server.challenge(derive("pencil", b"salt", 4096))
            connection.send_sasl(SaslChallenge(challenge))
        elif isinstance(frame, SaslChallenge):
            connection.send_sasl(SaslResponse(self.client.answer(frame.challenge)))
        elif isinstance(frame, SaslResponse):
            final = self.server.finish(frame.response)
            connection.send_sasl(SaslOutcome(0, final) if final else SaslOutcome(1))
        elif isinstance(frame, SaslOutcome) and frame.code == 0:
            assert self.client.verify(frame.additional_data or b"")


@pytest.mark.parametrize(("password", "works"), [("pencil", True), ("crayon", False)])
def test_scram_crosses_the_sasl_layer(password: str, works: bool) -> None:
    pair = Pair(seed=1)
    for machine in (pair.client, pair.server):
        machine.listener = ScramListener(machine.listener, password)
        machine.connection.listener = machine.listener
    pair.client.connection.start(True)
    pair.transfer()
    expected = ConnectionState.HEADER_EXCHANGED if works else ConnectionState.ENDED
    assert pair.client.state() is expected
    assert pair.server.state() is expected


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        (b"AMQP\x00\x00\x09\x01", PROTOCOL_HEADER),
        (b"AMQP\x02\x01\x00\x00", SASL_HEADER),
        (b"GET / HTTP", PROTOCOL_HEADER),
        (b"\x00" * 8, PROTOCOL_HEADER),
    ],
)
def test_another_header_is_answered_with_ours(header: bytes, answer: bytes) -> None:
    machine = Machine(Role.SERVER)
    machine.receive(header)
    assert machine.flush() == answer
    assert machine.transport.closed
    ended = ("amqp:connection:framing-error", False)
    assert machine.calls.named("connection_ended") == [(ended,)]


def test_a_server_that_asks_for_a_login_answers_a_plain_header_with_that_of_sasl() -> None:
    machine = Machine(Role.SERVER, sasl=True)
    machine.receive(PROTOCOL_HEADER)
    assert machine.flush() == SASL_HEADER
    assert machine.transport.closed


def test_a_second_login_is_refused() -> None:
    machine = Machine(Role.SERVER, sasl=True)
    machine.receive(SASL_HEADER + sasl_frame(SaslInit("PLAIN")) + SASL_HEADER)
    assert machine.flush().endswith(PROTOCOL_HEADER)
    assert machine.state() is ConnectionState.ENDED


def test_a_client_does_not_speak_to_a_server_of_another_protocol() -> None:
    for sasl, header in ((True, PROTOCOL_HEADER), (False, SASL_HEADER), (False, b"HTTP/1.1")):
        machine = Machine(Role.CLIENT)
        machine.connection.start(sasl)
        machine.flush()
        machine.receive(header)
        assert machine.flush() == b""
        assert machine.state() is ConnectionState.ENDED


@pytest.mark.parametrize(
    "damaged",
    [
        b"\x00\x00\x00\x07\x02\x00\x00\x00",  # shorter than its own head
        b"\x00\x00\x00\x08\x01\x00\x00\x00",  # data offset inside the head
        b"\x00\x00\x00\x08\x03\x00\x00\x00",  # data offset behind the end
        b"\x00\x00\x00\x08\x02\x01\x00\x00",  # a SASL frame
        b"\x00\x00\x00\x08\x02\x07\x00\x00",
        b"\x00\x02\x00\x01\x02\x00\x00\x00",  # larger than agreed
    ],
)
def test_damaged_frames_close_the_connection(damaged: bytes) -> None:
    machine = open_machine()
    machine.receive(damaged + frame(0, Begin(None, 0, 1, 1)))
    assert closed_with(machine) == "amqp:connection:framing-error"
    assert machine.calls.named("begin") == []
    machine.receive(frame(0, Close()))
    # Nobody knows where a frame begins any more: only time ends it.
    assert machine.state() is ConnectionState.CLOSE_SENT
    machine.connection.tick(10)
    machine.connection.tick(10 + 5_000)
    assert machine.state() is ConnectionState.ENDED


def test_before_our_open_frames_are_small() -> None:
    machine = Machine(Role.SERVER)
    large = Open("c", properties={"a": "x" * 500})
    machine.receive(PROTOCOL_HEADER + frame(0, large))
    assert closed_with(machine) == "amqp:connection:framing-error"


def test_an_extended_header_is_stepped_over() -> None:
    machine = open_machine()
    body = Begin(None, 0, 10, 10).encode()
    machine.receive((12 + len(body)).to_bytes(4, "big") + b"\x03\x00\x00\x00abcd" + body)
    assert machine.calls.named("begin") == [(0,)]


def test_octets_that_are_no_performative_are_a_decode_error() -> None:
    for body in (b"\x40", b"\x00\x53\x77\x40", b"\x00\x53\x10\x45", b"\x00\x53\xff\x45"):
        machine = open_machine()
        machine.receive(encode_frame(0, 0, body))
        assert closed_with(machine) == "amqp:decode-error"


def test_the_peers_open_sets_bounds() -> None:
    machine = Machine(Role.SERVER)
    machine.receive(PROTOCOL_HEADER + frame(0, Open("c", None, 700, 5)))
    assert machine.connection.outgoing_frame_max == 700
    assert machine.connection.outgoing_channel_max == 5
    machine = Machine(Role.SERVER)
    machine.receive(PROTOCOL_HEADER + frame(0, Open("c")))
    assert machine.connection.outgoing_frame_max == Limits().frame_max


@pytest.mark.parametrize("opened", [Open("c", None, 511), Open("c", idle_time_out=999)])
def test_an_open_that_asks_too_much_is_answered_with_open_and_close(opened: Open) -> None:
    machine = Machine(Role.SERVER)
    machine.receive(PROTOCOL_HEADER + frame(0, opened))
    (_, first), (_, second) = machine.said()
    assert isinstance(first, Open)
    assert isinstance(second, Close)
    assert second.error is not None
    assert second.error.condition == "amqp:invalid-field"
    machine.receive(frame(0, Close()))
    assert machine.state() is ConnectionState.ENDED


def test_a_listener_may_refuse_an_open() -> None:
    machine = Machine(Role.SERVER)
    machine.receive(PROTOCOL_HEADER)
    machine.flush()
    machine.calls.raises = ConnectionFault("amqp:not-found", "no such host")
    machine.receive(frame(0, Open("c", "nowhere")))
    assert [said.wire_name() for _, said in machine.said()] == ["open", "close"]
    assert machine.calls.named("connection_ended") == [(("amqp:not-found", False),)]


def test_heartbeats_are_sent_at_half_the_time_the_peer_bears() -> None:
    machine = Machine(Role.SERVER)
    machine.receive(PROTOCOL_HEADER + frame(0, Open("c", idle_time_out=4_000)))
    machine.flush()
    machine.connection.tick(1_000)
    assert machine.flush() == HEARTBEAT
    machine.connection.tick(2_000)
    assert machine.flush() == b""
    machine.connection.tick(3_000)
    assert machine.flush() == HEARTBEAT


def test_our_own_bound_is_told_and_a_silent_peer_is_left() -> None:
    machine = Machine(Role.SERVER, Limits(idle_ms=5_000))
    machine.receive(PROTOCOL_HEADER + frame(0, Open("c")), 100)
    ((_, said),) = machine.said()
    assert isinstance(said, Open)
    assert said.idle_time_out == 5_000
    machine.receive(HEARTBEAT, 5_000)
    machine.connection.tick(15_000)
    assert machine.state() is ConnectionState.OPENED
    machine.connection.tick(15_001)
    assert closed_with(machine) == "amqp:resource-limit-exceeded"
    assert machine.transport.aborted
    assert machine.state() is ConnectionState.ENDED


def test_without_bounds_silence_is_borne() -> None:
    machine = Machine(Role.SERVER, Limits(idle_ms=0))
    machine.receive(PROTOCOL_HEADER + frame(0, Open("c")))
    machine.flush()
    machine.connection.tick(10**9)
    assert machine.flush() == b""
    assert machine.state() is ConnectionState.OPENED


def test_a_handshake_takes_only_so_long() -> None:
    machine = slow_server()
    machine.receive(SASL_HEADER)
    machine.connection.tick(5)
    machine.connection.tick(5 + 9_999)
    assert machine.state() is ConnectionState.START
    machine.connection.tick(5 + 10_000)
    assert machine.calls.named("connection_ended") == [(("amqp:connection:forced", False),)]


@pytest.mark.parametrize("error", [None, Error("amqp:connection:forced")])
def test_the_peers_close_is_answered(error: Error | None) -> None:
    machine = open_machine()
    machine.hear(0, Close(error))
    assert machine.said() == [(0, Close())]
    assert machine.transport.closed
    told = None if error is None else ("amqp:connection:forced", True)
    assert machine.calls.named("connection_ended") == [(told,)]


def test_our_orderly_close_is_over_when_it_is_answered() -> None:
    machine = open_machine()
    machine.connection.close(None)
    assert machine.said() == [(0, Close())]
    assert machine.calls.named("connection_ended") == []
    machine.hear(0, Begin(None, 0, 1, 1))
    machine.hear(3, Flow(0, 1, 1, 1))
    assert machine.said() == []
    machine.hear(0, Close())
    assert machine.calls.named("connection_ended") == [(None,)]
    machine.flush()
    assert machine.transport.closed


def test_our_close_with_a_fault_is_told_at_once() -> None:
    machine = open_machine()
    machine.connection.close(ConnectionFault("amqp:internal-error", "x"))
    assert machine.calls.named("connection_ended") == [(("amqp:internal-error", False),)]
    machine.connection.close(None)
    machine.hear(0, Close())
    assert len(machine.calls.named("connection_ended")) == 1


def test_two_closes_may_cross() -> None:
    pair = Pair()
    pair.connect()
    pair.client.connection.close(None)
    pair.server.connection.close(None)
    pair.transfer()
    for machine in (pair.client, pair.server):
        assert machine.calls.named("connection_ended") == [(None,)]
        assert machine.transport.closed


@pytest.mark.parametrize("fault", [None, ConnectionFault("amqp:internal-error", "x")])
def test_what_crosses_our_close_is_discarded(fault: ConnectionFault | None) -> None:
    """Whatever it is, and however it is cut: the peer had not heard our close yet."""
    machine = open_machine()
    machine.hear(0, Begin(None, 0, 10, 10))
    attach = Attach("in", 0, False, source=Source("s"), target=Target("t"))
    attach.initial_delivery_count = 0
    machine.hear(0, attach)
    machine.flush()
    machine.calls.all.clear()
    machine.connection.close(fault)
    assert [said.wire_name() for _, said in machine.said()] == ["close"]
    crossing = b"".join(
        [
            encode_frame(
                AMQP_FRAME, 0, Transfer(0, 0, b"t", 0, True).encode() + Data(b"x").encode()
            ),
            frame(0, Flow(0, 1, 1, 1)),
            # A session that was never begun, a handle that was never attached, a second open.
            frame(7, Flow(0, 1, 1, 1)),
            frame(0, Detach(9, True)),
            frame(0, Open("again")),
            frame(0, End()),
            frame(0, Close()),
        ]
    )
    for octet in crossing:
        machine.receive(bytes([octet]))
    assert machine.said() == []
    told = None if fault is None else ("amqp:internal-error", False)
    assert machine.calls.all == [("connection_ended", told)]
    assert machine.transport.closed


def test_what_comes_after_both_closes_is_discarded() -> None:
    machine = open_machine()
    machine.receive(frame(0, Close()) + frame(0, Close()) + frame(0, Begin(None, 0, 1, 1)))
    machine.receive(b"anything")
    machine.hear(0, Close())
    assert machine.said() == [(0, Close())]
    assert machine.calls.named("connection_ended") == [(None,)]


def test_a_close_before_anything_is_agreed_only_hangs_up() -> None:
    machine = Machine(Role.SERVER)
    machine.connection.close(ConnectionFault("amqp:connection:forced", "shutdown"))
    assert machine.flush() == b""
    assert machine.transport.closed


def test_a_lost_transport_is_told() -> None:
    machine = open_machine()
    machine.connection.lost()
    assert machine.calls.named("connection_ended") == [(("amqp:connection:forced", False),)]
    machine.connection.lost()
    machine = open_machine()
    machine.connection.close(None)
    machine.connection.lost()
    assert machine.calls.named("connection_ended") == [(None,)]


def test_a_client_may_pipe_open_and_begin() -> None:
    machine = Machine(Role.CLIENT)
    machine.connection.start(False)
    machine.connection.open()
    session = machine.connection.begin()
    names = [said.wire_name() for _, said in machine.said()]
    assert names == ["open", "begin"]
    machine.receive(PROTOCOL_HEADER + frame(0, Open("s", None, 1000)))
    assert session.frame_max == 1000
    machine.hear(7, Begin(0, 5, 10, 10))
    assert session.remote_channel == 7
    assert session.remote_incoming_window == 10


def test_what_a_listener_raises_of_a_link_where_there_is_none_closes_the_connection() -> None:
    machine = Machine(Role.SERVER)
    machine.calls.raises = LinkFault("amqp:not-found", "x")
    machine.receive(PROTOCOL_HEADER + frame(0, Open("c")))
    assert closed_with(machine) == "amqp:not-found"


def test_a_defect_of_the_listener_leaves_receive() -> None:
    machine = Machine(Role.SERVER)
    machine.calls.raises = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        machine.receive(PROTOCOL_HEADER + frame(0, Open("c")))
