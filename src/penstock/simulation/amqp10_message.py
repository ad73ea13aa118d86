"""Messages of AMQP 1.0 as programs in the simulation write and read them."""

from penstock.simulation.amqp10_program import Amqp10Program
from penstock.simulation.copies import Copy, body_of
from penstock.simulation.plans import Scenario
from penstock.wire.amqp10.performatives_generated import DATA, HEADER, Data, Header, Properties
from penstock.wire.amqp10.sections import Sections


def address_of(exchange: str, key: str) -> str:
    """None of the names in a scenario needs to be quoted."""
    if not exchange:
        return f"/queues/{key}"
    return f"/exchanges/{exchange}/{key}"


def section_of(body: bytes) -> bytes:
    """As a queue keeps it."""
    return Data(body).encode()


def head_of(copy: Copy, with_address: bool) -> bytes:
    head = Header(durable=copy.is_persistent, first_acquirer=True).encode()
    if with_address:
        head += Properties(to=address_of(copy.exchange, copy.key)).encode()
    return head


def copy_of(
    program: Amqp10Program, scenario: Scenario, serial: int, exchange: str, key: str
) -> Copy:
    """The copy that a program publishes next."""
    name = f"{program.name}.{serial}".encode()
    share = scenario.persistent_share
    body = body_of(name, program.dice.between(0, scenario.body_bytes_max))
    return Copy(
        name,
        program.name,
        program.epoch,
        serial,
        exchange,
        key,
        body,
        program.ledger.topology.queues_for(exchange, key),
        is_mandatory=False,
        is_persistent=share > 0 and program.dice.chance(share),
        section=section_of(body),
        sent_ms=program.clock.now(),
    )


class Received:
    """A received delivery, decoded."""

    def __init__(self, payload: bytes) -> None:
        sections = Sections(payload)
        data = sections.decode(DATA)
        self.body = data.value if isinstance(data, Data) else b""
        header = sections.decode(HEADER)
        self.header = header if isinstance(header, Header) else Header()
