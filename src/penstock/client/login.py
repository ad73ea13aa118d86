"""What a client says about itself, and how it shows who it is."""

from typing import Final

from penstock.client.uri import Address
from penstock.wire.amqp091.errors import ConnectionFault
from penstock.wire.amqp091.methods_generated import (
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from penstock.wire.amqp091.reply_codes_generated import NOT_ALLOWED
from penstock.wire.sasl import plain_response

PLAIN: Final = "PLAIN"
LOCALE: Final = "en_US"

# A broker sends connection.blocked, consumer cancels and the reason of a refused login only to
# those who say they understand them.
CAPABILITIES: Final[dict[str, object]] = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}


def answer_start(start: ConnectionStart, address: Address, name: str) -> ConnectionStartOk:
    mechanisms = start.mechanisms.decode("utf-8", "replace").split()
    if PLAIN not in mechanisms:
        raise ConnectionFault(
            NOT_ALLOWED,
            f"the broker offers {' '.join(mechanisms) or 'no login'}; this client supports {PLAIN}",
        )
    properties: dict[str, object] = {"product": "Penstock client", "capabilities": CAPABILITIES}
    if name:
        properties["connection_name"] = name
    response = plain_response(address.user, address.password)
    return ConnectionStartOk(properties, PLAIN, response, LOCALE)


def answer_tune(tune: ConnectionTune, address: Address) -> ConnectionTuneOk:
    """The smaller wish wins, and 0 is no wish at all; but we alone may switch heartbeats off."""
    heartbeat = address.heartbeat_seconds
    if heartbeat and tune.heartbeat:
        heartbeat = min(heartbeat, tune.heartbeat)
    return ConnectionTuneOk(
        _smaller(tune.channel_max, address.channel_max),
        _smaller(tune.frame_max, address.frame_max),
        heartbeat,
    )


def _smaller(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other
