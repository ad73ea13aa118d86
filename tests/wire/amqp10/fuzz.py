"""A seeded fuzzer of the AMQP 1.0 machine: valid conversations, damaged.

Each input is one side of a recorded conversation, mutated, cut into pieces and fed to a fresh
machine of the other side, which must not raise, must keep little, must say only whole frames with
known conditions, and must come to its end when time passes.

Longer runs: `python -m tests.wire.amqp10.fuzz SEED COUNT`. A failure prints the number of its
input; `check(SEED, NUMBER)` repeats exactly that one.
"""

from __future__ import annotations

from random import Random

from penstock.wire.amqp10.conditions_generated import CONDITIONS
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.framing import HEARTBEAT
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Open,
    Received,
    Rejected,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.sending import SendingLink, SentDelivery
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED, Session
from penstock.wire.amqp10.states import ConnectionState, Role
from penstock.wire.amqp10.values import Composite, Described, Symbol, UInt
from tests.wire.amqp10.doubles import (
    KeepingListener,
    KeepingReceiver,
    Machine,
    Pair,
    decode_frames,
    frame,
    split_frames,
)
from tests.wire.damage import Recorded, check_one, main, mutate, rearrange

# Small, so that inputs reach them.
LIMITS = Limits(
    frame_max=1024,
    channel_max=3,
    handle_max=3,
    incoming_window=12,
    outgoing_window=20,
    message_bytes_max=4_000,
    assembly_bytes_max=6_000,
    ahead_bytes_max=2_000,
)
BUFFERED_MAX = LIMITS.frame_max + LIMITS.assembly_bytes_max + LIMITS.ahead_bytes_max

# Of the messages that a sender has; the last needs several frames.
SIZES = (1, 40, 40, 900, 2500)
FILTER: dict[str, object] = {
    "selector": Described(Symbol("apache.org:selector-filter:string"), "a = 'b'"),
    "deep": [1, 2.5, None, {"é": [UInt(3)]}],
}
TERMINI = (Source("s", filter_=FILTER, capabilities=["queue"]), Target("t", dynamic=True))


class BusyListener(KeepingListener):
    """Begins, attaches, gives credit and sends by itself, so that one side alone makes a
    conversation.
    """

    def begin_all(self) -> None:
        """Client: as the recorded one, without waiting for an answer."""
        connection = self.connection
        connection.open("vhost:/")
        session = connection.begin()
        self.sessions.append(session)
        connection.begin()
        attach = Attach(source=TERMINI[0], target=TERMINI[1])
        down = connection.attach_receiver(session, "down", self.receiver, attach)
        down.offer(8)
        down.flow_if_needed()
        attach = Attach(source=TERMINI[0], target=TERMINI[1])
        connection.attach_sender(session, "up", self.sender, attach)

    def link_attached(self, session: Session, link: Link, attach: Attach) -> None:
        super().link_attached(session, link, attach)
        if isinstance(link, ReceivingLink) and link.is_attached:
            link.offer(8)
            link.flow_if_needed()


class BusyReceiver(KeepingReceiver):
    """Settles every other delivery and gives credit again."""

    sessions: list[Session]

    def delivery_received(
        self,
        link: ReceivingLink,
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        settled: bool,
        message_format: int,
        state: Composite | None,
    ) -> None:
        super().delivery_received(link, delivery_id, tag, payload, settled, message_format, state)
        session = link.session
        assert isinstance(session, Session)
        if not settled and delivery_id % 2:
            session.settle(delivery_id, delivery_id, OUTCOME_ACCEPTED)
        link.flow_if_needed()


def machine_for(recorded: Recorded[Role]) -> Machine:
    machine = Machine(recorded.listener_role, LIMITS, sasl=True)
    machine.listener = BusyListener(machine.calls)
    machine.listener.receiver = BusyReceiver(machine.calls)
    machine.listener.connection = machine.connection
    machine.connection.listener = machine.listener
    machine.listener.sender.waiting = [b"m" * size for size in SIZES]
    return machine


def record() -> list[Recorded[Role]]:
    """Both sides of a conversation that touches most of the machine."""
    pair = Pair(limits=LIMITS)
    session = pair.connect()
    sizes = len(pair.client_said), len(pair.server_said)
    client, server = pair.client, pair.server
    client.connection.begin()
    attach = Attach(source=TERMINI[0], target=TERMINI[1], unsettled={b"a": Accepted(), b"b": None})
    receiver = client.connection.attach_receiver(
        session, "down", KeepingReceiver(client.calls), attach
    )
    sender = client.connection.attach_sender(
        session, "up", client.listener.sender, Attach(source=TERMINI[0], target=TERMINI[1])
    )
    receiver.offer(8)
    receiver.flow_if_needed()
    server.listener.sender.waiting = [b"d" * size for size in SIZES]
    pair.transfer()
    link = server.listener.links[1]
    assert isinstance(link, ReceivingLink)
    link.offer(30)
    link.flow_if_needed()
    pair.transfer()
    for size in (40, 40, 0, 3000):
        sender.send(SentDelivery(), b"h", b"u" * size)
        sender.send_settled(b"", b"v" * size)
        server.listener.sessions[0].flow_if_needed()
        pair.transfer()
    sender.send_as(
        Transfer(delivery_tag=b"x", settled=False, state=TransactionalState(b"t")), b"w" * 10
    )
    sender.send_as(Transfer(delivery_tag=b"a", resume=True, state=Received(0, 1)), b"")
    server_session = server.listener.sessions[0]
    server_session.settle(0, 4, OUTCOME_ACCEPTED)
    server_session.settle(5, 6, Rejected())
    session.settle(0, 3, OUTCOME_ACCEPTED)
    session.settle(4, 4, Modified(delivery_failed=True, message_annotations={Symbol("x"): 1}))
    for each in (session, server_session):
        each.outgoing.push(HEARTBEAT)
        each.send_flow(Flow(echo=True))
    receiver.drain()
    pair.transfer()
    client.connection.detach(session, sender, None, False)
    pair.transfer()
    client.connection.detach(session, receiver, LinkFault("amqp:link:detach-forced", "x"), True)
    pair.transfer()
    server.connection.end_session(server_session, None)
    pair.transfer()
    client.connection.close(None)
    pair.transfer()
    return [
        Recorded(Role.SERVER, pair.client_said, sizes[0]),
        Recorded(Role.CLIENT, pair.server_said, sizes[1]),
    ]


# Octets that mean something where types and lengths stand.
TELLING = (0, 1, 2, 5, 0x40, 0x41, 0x42, 0x43, 0x45, 0x52, 0x53, 0x70, 0xA0, 0xC0, 0xD0, 0xFF)


def change_frames(random: Random, data: bytes) -> bytes:
    """Whole frames moved, doubled, dropped, put on another channel, or damaged inside: valid
    framing, wrong words.
    """
    frames = split_frames(data)
    rearrange(random, frames, change_inside, 3)
    return b"".join(frames)


def change_inside(random: Random, piece: bytes) -> bytes:
    if random.randrange(3) == 0:
        return piece[:6] + bytes((0, random.randrange(5))) + piece[8:]
    if len(piece) <= 12:
        return piece
    changed = bytearray(piece)
    changed[random.randrange(8, min(len(piece), 60))] = random.choice(TELLING)
    return bytes(changed)


INVENTED: list[Composite] = [
    Open("x"),
    Begin(None, 0, 5, 5),
    Begin(0, 0, 5, 5),
    Attach("up", 2, False, initial_delivery_count=0),
    Attach("x", 1, True),
    Flow(0, 100, 0, 100, 0, 0, 50, None, drain=True, echo=True),
    Flow(None, 0, 0xFFFF_FFFF, 0),
    Transfer(0, 5, b"t", 0, settled=False, more=True),
    Transfer(1, 6, b"t", 0, settled=True),
    Transfer(1, aborted=True),
    Disposition(True, 0, 0x7FFF_FFFF, settled=True, state=Accepted()),
    Disposition(False, 0, 9, settled=True),
    Detach(0),
    Detach(1, closed=True),
    End(),
    Close(),
]


def invent(random: Random, recorded: Recorded[Role]) -> bytes:
    """Performatives in no order at all, behind a good beginning."""
    frames = split_frames(recorded.said)
    count = random.randrange(len(frames))
    words = [
        frame(
            random.choice((0, 0, 0, 1, 2)), random.choice(INVENTED), b"p" * random.choice((0, 50))
        )
        for _ in range(random.randrange(1, 30))
    ]
    return b"".join([*frames[:count], *words])


def run(random: Random, machine: Machine, data: bytes) -> None:
    connection = machine.connection
    said = b""
    if connection.role is Role.CLIENT:
        connection.start(True)
    position = 0
    # Sometimes we end something in the middle of what the peer says.
    ends_at = random.randrange(len(data) + 1) if random.random() < 0.15 else len(data)
    largest = random.choice((20, 60, 700, 700, 4000, 4000, 1 << 20, 1 << 20))
    while position < len(data):
        size = random.randint(1, largest)
        machine.receive(data[position : position + size])
        position += size
        if connection.state is ConnectionState.HEADER_SENT and not machine.listener.sessions:
            listener = machine.listener
            assert isinstance(listener, BusyListener)
            listener.begin_all()
        assert connection.buffered() <= BUFFERED_MAX, connection.buffered()
        if position > ends_at:
            ends_at = len(data)
            end_something(random, machine)
        for session in machine.listener.sessions:
            assert 0 <= session.untaken <= LIMITS.incoming_window
            assert session.incoming_window <= LIMITS.incoming_window
            assert len(session.links) <= LIMITS.handle_max + 2
    said += machine.flush()
    for frame_number, (_, word, _) in enumerate(decode_frames(said)):
        if isinstance(word, (Close, End, Detach)) and word.error is not None:
            assert word.error.condition in CONDITIONS, (frame_number, word)
    # Never stuck: time alone brings it to its end.
    connection.tick(2)
    connection.tick(10**9)
    connection.tick(2 * 10**9)
    machine.flush()
    assert connection.state is ConnectionState.ENDED
    assert connection.buffered() == 0
    assert len(machine.calls.named("connection_ended")) == 1
    assert machine.transport.closed or machine.transport.aborted
    assert machine.calls.all[-1][0] == "connection_ended"


def end_something(random: Random, machine: Machine) -> None:
    connection = machine.connection
    for link in machine.listener.links:
        session = link.session
        if isinstance(session, Session) and random.random() < 0.5:
            fault = LinkFault("amqp:not-found", "x") if random.random() < 0.5 else None
            connection.detach(session, link, fault, random.random() < 0.5)
        if isinstance(link, SendingLink) and random.random() < 0.5:
            link.abort()
    for session in machine.listener.sessions:
        if random.random() < 0.3:
            connection.end_session(session, None)
    if random.random() < 0.2:
        connection.close(None)


def attempt(random: Random, recorded: Recorded[Role], other: bytes) -> None:
    choice = random.random()
    if choice < 0.3:
        data = change_frames(random, recorded.said)
    elif choice < 0.4:
        data = invent(random, recorded)
    else:
        data = mutate(random, recorded, other)
    run(random, machine_for(recorded), data)


def check(seed: int, number: int, recordings: list[Recorded[Role]] | None = None) -> None:
    check_one("tests.wire.amqp10.fuzz", seed, number, recordings or record(), attempt)


def fuzz(seed: int, count: int) -> None:
    recordings = record()
    for number in range(count):
        check(seed, number, recordings)


if __name__ == "__main__":
    main(fuzz)
