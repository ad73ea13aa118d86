"""Every performative in every state of connection, SASL layer, session and link: it moves the
machine as the table says, or is refused on the right endpoint, and never anything else.
"""

from __future__ import annotations

import pytest

from penstock.wire.amqp10.framing import PROTOCOL_HEADER, SASL_HEADER
from penstock.wire.amqp10.performatives_generated import (
    FRAMES,
    NAMES,
    SASL_FRAMES,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
)
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.states import (
    CONNECTION_RECEIVED,
    CONNECTION_SENT,
    LINK_RECEIVED,
    LINK_SENT,
    SASL_RECEIVED,
    SASL_SENT,
    SESSION_RECEIVED,
    SESSION_SENT,
    ConnectionState,
    LinkState,
    Role,
    SaslState,
    SessionState,
)
from penstock.wire.amqp10.values import Composite
from tests.wire.amqp10.doubles import KeepingListener, Machine, frame, open_machine, sasl_frame

A, C, S, L = SaslState, ConnectionState, SessionState, LinkState

WORDS: dict[int, Composite] = {
    said.identity(): said
    for said in (
        Open("peer"),
        Begin(None, 0, 5, 5),
        Attach("peer's", 0, False, initial_delivery_count=0),
        Flow(0, 5, 0, 5),
        Transfer(0, 0, b"t", 0, settled=True),
        Disposition(True, 0),
        Detach(0, closed=True),
        End(),
        Close(),
        SaslMechanisms(["PLAIN"]),
        SaslInit("PLAIN"),
        SaslChallenge(b""),
        SaslResponse(b""),
        SaslOutcome(0),
    )
}


class Silent(KeepingListener):
    """Answers nothing by itself."""

    def sasl_began(self) -> None:
        self.calls.add("sasl_began")

    def sasl_received(self, frame: Composite) -> None:
        self.calls.add("sasl", frame)

    def open_received(self, opened: Open) -> None:
        self.calls.add("open", opened.container_id)


def silent(role: Role) -> Machine:
    machine = Machine(role)
    machine.listener = Silent(machine.calls)
    machine.listener.answers = False
    machine.listener.connection = machine.connection
    machine.connection.listener = machine.listener
    return machine


def test_there_is_a_word_for_every_code() -> None:
    assert set(WORDS) == FRAMES | SASL_FRAMES


# The SASL layer.


# How a machine gets into each state: what the peer says, what we say then.
SASL_STEPS: dict[SaslState, list[tuple[Composite | None, Composite | None]]] = {
    A.OFFERING: [],
    A.AWAITING_INIT: [(None, SaslMechanisms(["X"]))],
    A.AUTHENTICATING: [(None, SaslMechanisms(["X"])), (SaslInit("X"), None)],
    A.AWAITING_RESPONSE: [
        (None, SaslMechanisms(["X"])),
        (SaslInit("X"), SaslChallenge(b"")),
    ],
    A.AWAITING_MECHANISMS: [],
    A.CHOOSING: [(SaslMechanisms(["X"]), None)],
    A.AWAITING_OUTCOME: [(SaslMechanisms(["X"]), SaslInit("X"))],
    A.CHALLENGED: [(SaslMechanisms(["X"]), SaslInit("X")), (SaslChallenge(b""), None)],
}


def in_sasl(state: SaslState) -> Machine:
    client = {A.AWAITING_MECHANISMS, A.CHOOSING, A.AWAITING_OUTCOME, A.CHALLENGED}
    machine = silent(Role.CLIENT if state in client else Role.SERVER)
    connection = machine.connection
    if state in client:
        connection.start(True)
    machine.receive(SASL_HEADER)
    for heard, said in SASL_STEPS[state]:
        if heard is not None:
            machine.receive(sasl_frame(heard))
        if said is not None:
            connection.send_sasl(said)
    assert connection.sasl is state
    machine.flush()
    return machine


SASL_STATES = [state for state in A if state is not A.NONE]
# While our listener owes an answer, what the peer says waits.
SASL_WAITING = {A.AUTHENTICATING, A.CHOOSING, A.CHALLENGED}


@pytest.mark.parametrize("state", SASL_STATES)
def test_every_sasl_frame_does_what_the_table_says(state: SaslState) -> None:
    for code in SASL_FRAMES:
        machine = in_sasl(state)
        machine.receive(sasl_frame(WORDS[code]))
        after = SASL_RECEIVED.get((state, code))
        if state in SASL_WAITING:
            assert machine.connection.sasl is state
            assert machine.connection.buffered() > 0
        elif after is None:
            assert machine.state() is C.ENDED
            assert machine.calls.named("connection_ended") == [(("amqp:illegal-state", False),)]
        else:
            assert machine.connection.sasl is after
            assert machine.calls.named("sasl")[-1] == (WORDS[code],)


@pytest.mark.parametrize("state", SASL_STATES)
def test_every_sasl_frame_we_may_not_send_is_our_own_mistake(state: SaslState) -> None:
    for code in SASL_FRAMES:
        machine = in_sasl(state)
        after = SASL_SENT.get((state, code))
        if after is None:
            with pytest.raises(AssertionError):
                machine.connection.send_sasl(WORDS[code])
            assert machine.connection.sasl is state
        else:
            machine.connection.send_sasl(WORDS[code])
            assert machine.connection.sasl is after


@pytest.mark.parametrize("state", SASL_STATES)
def test_amqp_frames_are_not_for_the_sasl_layer(state: SaslState) -> None:
    for code in FRAMES:
        machine = in_sasl(state)
        machine.receive(frame(0, WORDS[code]))
        assert (machine.state() is C.ENDED) is (state not in SASL_WAITING)


# The connection.


def in_connection(state: ConnectionState) -> Machine:
    client = {C.HEADER_SENT, C.OPEN_PIPED, C.OPEN_SENT, C.CLOSE_PIPED}
    machine = silent(Role.CLIENT if state in client else Role.SERVER)
    connection = machine.connection
    if state in client:
        connection.start(False)
        if state is not C.HEADER_SENT:
            connection.open()
        if state in {C.OPEN_SENT, C.CLOSE_PIPED}:
            machine.receive(PROTOCOL_HEADER)
        if state is C.CLOSE_PIPED:
            connection.close(None)
    elif state is not C.START:
        machine.receive(PROTOCOL_HEADER)
        if state is not C.HEADER_EXCHANGED:
            machine.receive(frame(0, Open("peer")))
        if state in {C.OPENED, C.CLOSE_SENT}:
            connection.open()
        if state is C.CLOSE_SENT:
            connection.close(None)
    assert connection.state is state
    machine.flush()
    return machine


# HEADER_RECEIVED, CLOSE_RECEIVED and ENDED are left before anybody can say a word.
CONNECTION_STATES = [
    state for state in C if state not in {C.HEADER_RECEIVED, C.CLOSE_RECEIVED, C.ENDED}
]


def test_every_state_of_the_tables_is_reached_here() -> None:
    tables = (CONNECTION_RECEIVED, CONNECTION_SENT)
    named = {state for table in tables for state, _ in table}
    assert named - set(CONNECTION_STATES) == {C.HEADER_RECEIVED, C.CLOSE_RECEIVED}
    assert {state for state, _ in [*SASL_RECEIVED, *SASL_SENT]} == set(SASL_STATES)


@pytest.mark.parametrize("state", CONNECTION_STATES)
def test_every_performative_does_what_the_table_says(state: ConnectionState) -> None:
    for code in FRAMES:
        machine = in_connection(state)
        machine.receive(frame(0, WORDS[code]))
        after = CONNECTION_RECEIVED.get((state, code))
        name = NAMES[code]
        if state in {C.START, C.HEADER_SENT, C.OPEN_PIPED}:
            # A header is what comes next.
            assert machine.state() is C.ENDED, name
        elif state is C.OPEN_RECEIVED:
            assert machine.state() is state
            assert machine.connection.buffered() > 0
        elif after is C.CLOSE_RECEIVED or after is C.ENDED:
            assert machine.state() is C.ENDED, name
        elif after is not None:
            assert machine.state() is after, name
        elif state in {C.CLOSE_PIPED, C.CLOSE_SENT} and name not in {"open", "close"}:
            assert machine.state() is state, name
        elif state is C.OPENED and name == "begin":
            assert machine.state() is state
        elif state is C.CLOSE_PIPED or state is C.CLOSE_SENT:
            # Nothing can be said against it any more.
            assert machine.state() is state, name
        else:
            assert machine.state() in {C.CLOSE_SENT, C.CLOSE_PIPED}, name
            ended = machine.calls.named("connection_ended")
            assert ended == [(("amqp:illegal-state", False),)], name


@pytest.mark.parametrize("state", CONNECTION_STATES)
def test_sasl_frames_are_not_for_the_connection(state: ConnectionState) -> None:
    for code in SASL_FRAMES:
        machine = in_connection(state)
        machine.receive(sasl_frame(WORDS[code]))
        if state is C.OPEN_RECEIVED:
            machine.connection.open()
        assert machine.state() in {C.ENDED, C.CLOSE_SENT, C.CLOSE_PIPED}


@pytest.mark.parametrize("state", CONNECTION_STATES)
def test_an_open_of_ours_is_sent_when_the_table_says(state: ConnectionState) -> None:
    machine = in_connection(state)
    after = CONNECTION_SENT.get((state, WORDS[0x10].identity()))
    if state in {C.CLOSE_PIPED, C.CLOSE_SENT}:
        machine.connection.open()
        assert machine.flush() == b""
    elif after is None:
        with pytest.raises(AssertionError):
            machine.connection.open()
    else:
        machine.connection.open()
        assert machine.state() is after


# A session.


def in_session(state: SessionState) -> tuple[Machine, Session]:
    machine = open_machine(Role.CLIENT)
    machine.listener.answers = False
    connection = machine.connection
    session = connection.begin()
    if state is not S.BEGIN_SENT:
        machine.hear(0, Begin(0, 0, 5, 5))
    if state is S.END_SENT:
        connection.end_session(session, None)
    assert session.state is state
    machine.flush()
    return machine, session


@pytest.mark.parametrize("state", [S.BEGIN_SENT, S.MAPPED, S.END_SENT])
def test_every_performative_on_a_session_does_what_the_table_says(state: SessionState) -> None:
    for code in FRAMES - {0x10, 0x18}:
        machine, session = in_session(state)
        machine.hear(0, WORDS[code])
        after = SESSION_RECEIVED.get((state, code))
        name = NAMES[code]
        if name == "begin" and state is S.BEGIN_SENT:
            # A session of the peer's own, for it answers none of ours.
            assert session.state is state
            assert machine.state() is C.OPENED
        elif state is S.BEGIN_SENT or name == "begin":
            assert machine.state() is C.CLOSE_SENT, name
        elif name == "end":
            assert session.state is S.ENDED
        elif name in {"transfer", "detach"} and state is S.MAPPED:
            assert session.state is S.END_SENT, name
            ended = machine.calls.named("session_ended")
            assert ended == [(("amqp:session:unattached-handle", False),)]
        else:
            assert session.state is after, name


def test_every_state_of_a_session_is_reached() -> None:
    reached = {S.UNMAPPED, S.BEGIN_SENT, S.BEGIN_RECEIVED, S.MAPPED, S.END_SENT, S.END_RECEIVED}
    assert {state for state, _ in [*SESSION_RECEIVED, *SESSION_SENT]} == reached


# A link.


def in_link(state: LinkState) -> Machine:
    machine, session = in_session(S.MAPPED)
    if state is L.ATTACH_RECEIVED:
        machine.hear(0, Attach("link", 0, False, initial_delivery_count=0))
    else:
        listener = machine.listener.receiver
        link = machine.connection.attach_receiver(session, "link", listener, Attach())
        link.offer(5)
        link.flow_if_needed()
        if state is not L.ATTACH_SENT:
            machine.hear(0, Attach("link", 0, False, initial_delivery_count=0))
        if state is L.DETACH_SENT:
            machine.connection.detach(session, link, None, True)
        assert link.state is state
    machine.flush()
    return machine


LINK_WORDS: list[Composite] = [
    Attach("link", 0, False, initial_delivery_count=0),
    Flow(0, 5, 0, 5, 0, 0, 5),
    Transfer(0, 0, b"t", 0, settled=True),
    Detach(0, closed=True),
]


@pytest.mark.parametrize("state", [L.ATTACH_SENT, L.ATTACH_RECEIVED, L.ATTACHED, L.DETACH_SENT])
@pytest.mark.parametrize("said", LINK_WORDS, ids=lambda said: said.wire_name())
def test_every_performative_on_a_link_does_what_the_table_says(
    state: LinkState, said: Composite
) -> None:
    machine = in_link(state)
    machine.hear(0, said)
    after = LINK_RECEIVED.get((state, said.identity()))
    ended = machine.calls.named("session_ended")
    link = machine.listener.links[-1] if machine.listener.links else None
    if isinstance(said, Attach) and state is not L.ATTACH_SENT:
        # Its handle is taken, by the link that it means or by another.
        assert ended == [(("amqp:session:handle-in-use", False),)]
    elif after is None:
        assert ended == [(("amqp:session:unattached-handle", False),)]
    else:
        assert ended == []
        assert link is not None
        expected = {L.DETACH_RECEIVED: L.ENDED}.get(after, after)
        assert link.state is expected


def test_every_state_of_a_link_is_reached() -> None:
    reached = {L.DETACHED, L.ATTACH_SENT, L.ATTACH_RECEIVED, L.ATTACHED, L.DETACH_SENT}
    named = {state for state, _ in [*LINK_RECEIVED, *LINK_SENT]}
    assert named == reached | {L.DETACH_RECEIVED}
