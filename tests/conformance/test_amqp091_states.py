"""Every method in every state of a connection: it moves the machine as the table says, or is
refused with 503 (504 for a channel that is not open), and never anything else.
"""

import pytest

from penstock.formats.amqp091_frames import PROTOCOL_HEADER
from penstock.wire.amqp091 import methods_generated
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.methods_generated import (
    CHANNEL_OPEN,
    CONNECTION_CLOSE,
    CONNECTION_CLOSE_OK,
    NAMES,
    SENT_BY_CLIENT,
    SENT_BY_SERVER,
    ChannelClose,
    ConnectionClose,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from penstock.wire.amqp091.states import RECEIVED, SENT, ConnectionState, Role, expected_in
from tests.wire.doubles import KeepingListener, Machine, method_frame

S = ConnectionState


def plain(identity: int) -> Method:
    """A method of this identity with empty fields."""
    parts = NAMES[identity].replace(".", "-").split("-")
    method: Method = getattr(methods_generated, "".join(part.capitalize() for part in parts))()
    return method


# How a machine whose listener says nothing by itself gets into each state.
SERVER_STEPS: list[tuple[ConnectionState, Method | None, Method | None]] = [
    # state reached, what the peer says, what we say then
    (S.HEADER_AGREED, None, None),
    (S.AWAITING_START_OK, None, ConnectionStart()),
    (S.AUTHENTICATING, ConnectionStartOk(), None),
    (S.AWAITING_TUNE_OK, None, ConnectionTune(10, 4096, 0)),
    (S.AWAITING_OPEN, ConnectionTuneOk(10, 4096, 0), None),
    (S.OPENING, plain(methods_generated.CONNECTION_OPEN), None),
    (S.OPEN, None, ConnectionOpenOk()),
]
CLIENT_STEPS: list[tuple[ConnectionState, Method | None, Method | None]] = [
    (S.AWAITING_START, None, None),
    (S.STARTING, ConnectionStart(), None),
    (S.AWAITING_TUNE, None, ConnectionStartOk()),
    (S.TUNING, ConnectionTune(10, 4096, 0), None),
    (S.TUNED, None, ConnectionTuneOk(10, 4096, 0)),
    (S.AWAITING_OPEN_OK, None, plain(methods_generated.CONNECTION_OPEN)),
    (S.OPEN, ConnectionOpenOk(), None),
]
# Side ways: a challenge.
SECURED = {
    (Role.SERVER, S.AWAITING_SECURE_OK): (S.AUTHENTICATING, None, ConnectionSecure()),
    (Role.CLIENT, S.SECURING): (S.AWAITING_TUNE, ConnectionSecure(), None),
}


def machine_in(role: Role, state: ConnectionState) -> Machine:
    machine = Machine(role)
    machine.connection.listener = KeepingListener()
    if role is Role.SERVER:
        machine.receive(PROTOCOL_HEADER)
    else:
        machine.connection.start()
    last, heard, said = SECURED.get((role, state), (state, None, None))
    steps = list(SERVER_STEPS if role is Role.SERVER else CLIENT_STEPS)
    while steps and machine.connection.state is not last:
        _, step_heard, step_said = steps.pop(0)
        take(machine, step_heard, step_said)
    if last is not state:
        take(machine, heard, said)
    assert machine.connection.state is state
    machine.flush()
    return machine


def take(machine: Machine, heard: Method | None, said: Method | None) -> None:
    if heard is not None:
        machine.receive(method_frame(0, heard))
    if said is not None:
        machine.connection.send_method(0, said)


STATES = [
    *[(Role.SERVER, state) for state, _, _ in SERVER_STEPS],
    (Role.SERVER, S.AWAITING_SECURE_OK),
    *[(Role.CLIENT, state) for state, _, _ in CLIENT_STEPS],
    (Role.CLIENT, S.SECURING),
]


def test_every_state_of_the_tables_is_reached_here() -> None:
    reached = {state for _, state in STATES}
    named = {state for state, _ in [*RECEIVED, *SENT]} | {*RECEIVED.values(), *SENT.values()}
    assert named == reached


@pytest.mark.parametrize(("role", "state"), STATES)
def test_every_method_on_channel_0_does_what_the_table_says(
    role: Role, state: ConnectionState
) -> None:
    peer_says = SENT_BY_CLIENT if role is Role.SERVER else SENT_BY_SERVER
    for identity in NAMES:
        machine = machine_in(role, state)
        machine.receive(method_frame(0, plain(identity)))
        after = RECEIVED.get((state, identity)) if identity in peer_says else None
        said = machine.said()
        if identity == CONNECTION_CLOSE:
            assert [NAMES[m.identity()] for _, m in said] == ["connection.close-ok"]
            # A server goes on discarding until the client's end of the socket.
            answered = S.CLOSING if role is Role.SERVER else S.ENDED
            assert machine.connection.state is answered
        elif after is None:
            ((channel, close),) = said
            assert isinstance(close, ConnectionClose)
            assert (channel, close.reply_code) == (0, 503)
            assert NAMES[identity] in close.reply_text
            assert close.class_id << 16 | close.method_id == identity
            assert machine.connection.state is S.CLOSING
        else:
            assert said == []
            assert machine.connection.state is after


@pytest.mark.parametrize(("role", "state"), STATES)
def test_every_method_on_a_channel_that_is_not_open_is_refused(
    role: Role, state: ConnectionState
) -> None:
    peer_says = SENT_BY_CLIENT if role is Role.SERVER else SENT_BY_SERVER
    for identity in NAMES:
        machine = machine_in(role, state)
        machine.receive(method_frame(1, plain(identity)))
        said = machine.said()
        if state is S.OPEN and identity == CHANNEL_OPEN and role is Role.SERVER:
            assert said == []
            assert machine.connection.channel_open(1)
            continue
        ((_, close),) = said
        assert isinstance(close, ConnectionClose)
        meant_for_us = identity in peer_says and identity >> 16 != 10
        assert close.reply_code == (504 if state is S.OPEN and meant_for_us else 503)


@pytest.mark.parametrize("role", list(Role))
def test_while_closing_only_close_and_close_ok_are_heard(role: Role) -> None:
    for identity in NAMES:
        machine = machine_in(role, S.OPEN)
        machine.connection.close(shutdown())
        machine.flush()
        for channel in (0, 1):
            if identity in {CONNECTION_CLOSE, CONNECTION_CLOSE_OK} and channel == 0:
                continue
            machine.receive(method_frame(channel, plain(identity)))
            assert machine.connection.state is S.CLOSING
            assert machine.said() == []
    for identity in (CONNECTION_CLOSE, CONNECTION_CLOSE_OK):
        machine = machine_in(role, S.OPEN)
        machine.connection.close(shutdown())
        machine.receive(method_frame(0, plain(identity)))
        waits_on = identity == CONNECTION_CLOSE and role is Role.SERVER
        assert machine.connection.state is (S.CLOSING if waits_on else S.ENDED)


def shutdown() -> ConnectionFault:
    return ConnectionFault(320, "shutdown")


def test_every_method_on_a_closing_channel_is_discarded_but_close_and_close_ok() -> None:
    for identity in NAMES:
        machine = machine_in(Role.SERVER, S.OPEN)
        machine.receive(method_frame(1, plain(CHANNEL_OPEN)))
        machine.connection.close_channel(1, ChannelFault(404, "no"))
        assert isinstance(machine.said()[0][1], ChannelClose)
        machine.receive(method_frame(1, plain(identity)))
        said = [NAMES[method.identity()] for _, method in machine.said()]
        assert said == (["channel.close-ok"] if NAMES[identity] == "channel.close" else [])
        known = NAMES[identity] != "channel.close-ok"
        assert machine.connection.channel_known(1) is known
        assert machine.connection.state is S.OPEN


def test_a_refusal_says_what_was_expected() -> None:
    assert expected_in(S.AWAITING_TUNE) == "connection.secure or connection.tune"
    assert expected_in(S.OPEN) == "nothing of the handshake"


@pytest.mark.parametrize(("role", "state"), STATES)
def test_every_method_we_may_not_send_is_our_own_mistake(
    role: Role, state: ConnectionState
) -> None:
    for identity in NAMES:
        machine = machine_in(role, state)
        after = SENT.get((state, identity))
        if after is not None:
            machine.connection.send_method(0, plain(identity))
            assert machine.connection.state is after
        else:
            with pytest.raises(AssertionError):
                machine.connection.send_method(0, plain(identity))
            assert machine.connection.state is state
