"""Our codec and our machine against Qpid Proton's, in memory.

Proton is the reference that most clients are built on. It is no dependency of the tests: where
python-qpid-proton is not installed these are skipped, and say so.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.amqp10.decoding import decode_value
from penstock.wire.amqp10.encoding import encode_value
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import (
    APPLICATION_PROPERTIES,
    PROPERTIES,
    AmqpValue,
    ApplicationProperties,
    Header,
    Properties,
    Rejected,
)
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED
from penstock.wire.amqp10.states import Role
from penstock.wire.amqp10.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Uuid,
)
from tests.wire.amqp10.doubles import Machine
from tests.wire.amqp10.strategies import SCALARS, same

proton: Any = pytest.importorskip(
    "proton", reason="python-qpid-proton is not installed: no word of another implementation"
)


def theirs(value: object) -> Any:
    """A value of ours as Proton's Python has it."""
    if isinstance(value, (list, dict, Described, Array)):
        return nested(value)
    wrapped = {
        Symbol: proton.symbol,
        Char: proton.char,
        UByte: proton.ubyte,
        UShort: proton.ushort,
        UInt: proton.uint,
        ULong: proton.ulong,
        Byte: proton.byte,
        Short: proton.short,
        Int: proton.int32,
        Timestamp: proton.timestamp,
        Float: proton.float32,
    }
    if type(value) in wrapped:
        return wrapped[type(value)](value)
    if isinstance(value, Uuid):
        return UUID(bytes=value.octets)
    if isinstance(value, Decimal32):
        return proton.decimal32(int.from_bytes(value.octets, "big"))
    if isinstance(value, Decimal64):
        return proton.decimal64(int.from_bytes(value.octets, "big"))
    if isinstance(value, Decimal128):
        return proton.decimal128(value.octets)
    return value


def nested(value: object) -> Any:
    if isinstance(value, list):
        return [theirs(item) for item in value]
    if isinstance(value, dict):
        return {theirs(key): theirs(item) for key, item in value.items()}
    if isinstance(value, Described):
        return proton.Described(theirs(value.descriptor), theirs(value.value))
    assert isinstance(value, Array)
    descriptor = proton.UNDESCRIBED if value.descriptor is None else theirs(value.descriptor)
    items = [theirs(item) for item in value.items]
    return proton.Array(descriptor, ARRAY_TYPES[value.code], *items)


def is_not_described(value: object) -> bool:
    return not isinstance(value, Described)


ARRAY_TYPES: dict[int, Any] = {
    0xB3: proton.Data.SYMBOL,
    0xB1: proton.Data.STRING,
    0x70: proton.Data.UINT,
    0x80: proton.Data.ULONG,
    0x81: proton.Data.LONG,
    0x56: proton.Data.BOOL,
    0xB0: proton.Data.BINARY,
    0x82: proton.Data.DOUBLE,
}
# Proton has no character beyond a Python chr, and takes NUL in symbols for their end.
TYPES = [SCALARS[code] for code in SCALARS if code not in {0xB3, 0x73}]
SCALAR: st.SearchStrategy[object] = st.one_of(
    *TYPES, st.text("abc-:.", max_size=300).map(Symbol), st.characters(codec="utf-8").map(Char)
)
ARRAY: st.SearchStrategy[object] = st.sampled_from(
    [0xB1, 0x70, 0x80, 0x81, 0x56, 0xB0, 0x82]
).flatmap(
    lambda code: st.builds(
        Array, st.just(code), st.lists(SCALARS[code], min_size=1, max_size=4), st.none()
    )
)
# Around a described value of a described value Proton writes a list with the wrong count.
VALUE: st.SearchStrategy[object] = st.recursive(
    SCALAR | ARRAY,
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(st.text(max_size=5), children, max_size=4)
        | st.builds(Described, st.just(Symbol("d")), children.filter(is_not_described))
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(VALUE)
def test_what_proton_writes_we_read(value: object) -> None:
    data = proton.Data()
    data.put_object(theirs(value))
    assert same(decode_value(bytes(data.encode())), value)


@settings(deadline=None)
@given(VALUE)
def test_what_we_write_proton_reads(value: object) -> None:
    """Compared as Proton writes it again: its own types are not ours."""
    encoded = encode_value(value)
    data = proton.Data()
    assert data.decode(encoded) == len(encoded)
    assert same(decode_value(bytes(data.encode())), value)


def test_messages_of_both() -> None:
    message = proton.Message(
        body={"a": [1, 2]}, durable=True, id="id", subject="s", properties={"k": "v", "n": 5}
    )
    sections = Sections(bytes(message.encode()))
    assert sections.decode(PROPERTIES) == Properties("id", subject="s")
    assert sections.decode(APPLICATION_PROPERTIES) == ApplicationProperties({"k": "v", "n": 5})
    again = proton.Message()
    parts = [
        Header(durable=True, priority=7, ttl=1000),
        Properties(ULong(5), user_id=b"u", to="q", content_type="x/y", group_sequence=3),
        ApplicationProperties({"k": True}),
        AmqpValue(["x", None]),
    ]
    again.decode(b"".join(part.encode() for part in parts))
    assert (again.durable, again.priority, again.ttl) == (True, 7, 1.0)
    assert (again.id, again.user_id, again.address) == (5, b"u", "q")
    assert (again.content_type, again.group_sequence) == ("x/y", 3)
    assert again.properties == {"k": True}
    assert again.body == ["x", None]


class Both:
    """Proton as the client, our machine as the server."""

    def __init__(self, limits: Limits | None = None, sasl: bool = True) -> None:
        self.machine = Machine(Role.SERVER, limits, sasl=sasl)
        self.transport = proton.Transport()
        self.connection = proton.Connection()
        self.connection.container = "proton"
        if sasl:
            self.transport.sasl().allowed_mechs("ANONYMOUS")
        self.transport.bind(self.connection)
        self.connection.open()
        self.session = self.connection.session()
        self.session.open()

    def pump(self) -> None:
        while True:
            pending = self.transport.pending()
            data = bytes(self.transport.peek(pending)) if pending > 0 else b""
            if data:
                self.transport.pop(len(data))
                self.machine.receive(data)
            answer = self.machine.flush()
            while answer:
                room = self.transport.capacity()
                assert room > 0
                self.transport.push(answer[:room])
                answer = answer[room:]
                data = b"heard"
            if not data:
                return


@pytest.mark.parametrize("sasl", [True, False])
def test_proton_logs_in_and_closes(sasl: bool) -> None:
    both = Both(sasl=sasl)
    both.pump()
    assert both.connection.state & proton.Endpoint.REMOTE_ACTIVE
    assert both.session.state & proton.Endpoint.REMOTE_ACTIVE
    assert both.connection.remote_container == "server"
    both.connection.close()
    both.pump()
    assert both.machine.calls.named("connection_ended") == [(None,)]
    assert both.connection.state & proton.Endpoint.REMOTE_CLOSED
    assert both.transport.condition is None


@pytest.mark.parametrize("size", [0, 40, 5000])
def test_proton_sends_to_us(size: int) -> None:
    both = Both(Limits(frame_max=1024, incoming_window=4))
    sender = both.session.sender("up")
    sender.target.address = "q"
    sender.open()
    both.pump()
    (link,) = both.machine.listener.links
    assert isinstance(link, ReceivingLink)
    assert getattr(link.target, "address") == "q"  # noqa: B009
    link.offer(10)
    link.flow_if_needed()
    both.pump()
    assert sender.credit == 10
    deliveries = []
    for number in range(7):
        deliveries.append(sender.delivery(f"t{number}"))
        sender.send(b"%d" % number + b"x" * size)
        sender.advance()
        both.pump()
        both.machine.listener.sessions[0].flow_if_needed()
        both.pump()
    heard = both.machine.calls.named("delivery")
    assert [call[3] for call in heard] == [b"%d" % n + b"x" * size for n in range(7)]
    assert [call[2] for call in heard] == [b"t%d" % n for n in range(7)]
    both.machine.listener.sessions[0].settle(0, 4, OUTCOME_ACCEPTED)
    both.machine.listener.sessions[0].settle(5, 6, Rejected())
    both.pump()
    assert [delivery.remote_state for delivery in deliveries] == (
        [proton.Delivery.ACCEPTED] * 5 + [proton.Delivery.REJECTED] * 2
    )
    assert all(delivery.settled for delivery in deliveries)


@pytest.mark.parametrize("size", [1, 40, 5000])
def test_proton_receives_from_us(size: int) -> None:
    both = Both(Limits(frame_max=1024))
    both.machine.listener.sender.waiting = [b"%d" % n + b"x" * size for n in range(5)]
    receiver = both.session.receiver("down")
    receiver.source.address = "q"
    receiver.open()
    receiver.flow(3)
    both.pump()
    taken = take_all(both, receiver)
    receiver.drain(10)
    both.pump()
    taken += take_all(both, receiver)
    both.pump()
    assert taken == [b"%d" % n + b"x" * size for n in range(5)]
    assert receiver.credit == 0
    assert not receiver.draining()
    updated = both.machine.calls.named("updated")
    assert [call[1] for call in updated] == [0, 1, 2, 3, 4]
    assert all(call[4] for call in updated)


def take_all(both: Both, receiver: Any) -> list[bytes]:
    """Accept and settle everything that has arrived."""
    taken = []
    while receiver.current is not None and receiver.current.readable:
        delivery = receiver.current
        if delivery.partial:
            break
        taken.append(bytes(receiver.recv(delivery.pending)))
        receiver.advance()
        delivery.update(proton.Delivery.ACCEPTED)
        delivery.settle()
    both.pump()
    return taken


def test_proton_detaches_and_ends() -> None:
    both = Both()
    sender = both.session.sender("up")
    sender.target.address = "q"
    sender.open()
    both.pump()
    sender.close()
    both.pump()
    assert both.machine.calls.named("link_ended") == [("up", None, True)]
    assert sender.state & proton.Endpoint.REMOTE_CLOSED
    both.session.close()
    both.pump()
    assert both.machine.calls.named("session_ended") == [(None,)]
    assert both.session.state & proton.Endpoint.REMOTE_CLOSED
