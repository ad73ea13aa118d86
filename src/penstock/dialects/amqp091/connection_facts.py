"""What an operator sees of an AMQP 0-9-1 connection."""

from typing import Final

from penstock.dialects.amqp091.login import connection_name
from penstock.dialects.facts import ConnectionFacts
from penstock.dialects.login import Login
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.amqp091.states import ConnectionState

# RabbitMQ's words for the states of a connection; all others are its `starting`.
_STATES: Final = {
    ConnectionState.AWAITING_TUNE_OK: "tuning",
    ConnectionState.AWAITING_OPEN: "opening",
    ConnectionState.OPENING: "opening",
    ConnectionState.OPEN: "running",
    ConnectionState.CLOSING: "closing",
    ConnectionState.ENDED: "closed",
}


def facts_of(
    wire: WireConnection,
    login: Login,
    client_properties: dict[str, object],
    is_blocked: bool,
    channel_count: int,
) -> ConnectionFacts:
    facts = ConnectionFacts("AMQP 0-9-1")
    facts.state = "blocked" if is_blocked else _STATES.get(wire.state, "starting")
    facts.user = login.user
    facts.vhost = "" if login.principal is None else login.principal.vhost.name
    facts.mechanism = login.mechanism_name
    facts.frame_max = wire.frame_max
    facts.channel_max = wire.channel_max
    facts.heartbeat_seconds = wire.heartbeat_seconds
    facts.client_properties = client_properties
    facts.client_name = connection_name(client_properties)
    facts.channel_count = channel_count
    return facts
