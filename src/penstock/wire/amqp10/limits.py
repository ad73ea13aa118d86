"""What one connection may ask of us before it is told to stop."""

from dataclasses import dataclass
from typing import Final

# The specification's floor: every peer accepts frames of this size, and nobody may send a larger
# one before the peer's open (2.7.1, MIN-MAX-FRAME-SIZE).
FRAME_MAX_FLOOR: Final = 512


@dataclass(frozen=True, slots=True)
class Limits:
    """Given to every connection when it is made; never changed afterwards."""

    # One body of a 64 kB message fits; larger frames delay other sessions. Artemis and RabbitMQ
    # offer 128 kB.
    frame_max: int = 131_072
    # Of frames that come before our own open has been sent.
    frame_max_before_open: int = FRAME_MAX_FLOOR
    # RabbitMQ's default; a session costs about 1 kB.
    channel_max: int = 63
    # Links of one session.
    handle_max: int = 255
    # Half of the silence after which we end the connection, as the specification advises; 0 means
    # any silence is borne.
    idle_ms: int = 60_000
    # A peer that wants to hear from us more often than this is refused: ticks come once a second.
    idle_ms_floor: int = 1_000
    # Transfers that may have arrived and not been taken, per session.
    incoming_window: int = 2_048
    # Deliveries that we may have sent unsettled, per session: what a peer that gives credit
    # without end and never settles can cost us.
    outgoing_window: int = 1_048_576
    # From the first octet to our open; RabbitMQ's handshake_timeout.
    handshake_ms: int = 10_000
    # How long we wait for the peer's close; a peer that is alive answers in a round trip.
    closing_ms: int = 5_000
    # One message; above it the link is detached. The same as for AMQP 0-9-1.
    message_bytes_max: int = 134_217_728
    # Deliveries in the making on all links of one connection together; above it the connection is
    # closed. Four of the largest messages at once are more than a sane client sends.
    assembly_bytes_max: int = 4 * 134_217_728
    # What a peer may say ahead while our listener decides about its login or its open. Clients
    # pipeline a few hundred octets.
    ahead_bytes_max: int = 65_536
