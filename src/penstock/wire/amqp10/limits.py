"""The limits of one connection."""

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
    # The largest frame before our own open has been sent.
    frame_max_before_open: int = FRAME_MAX_FLOOR
    # RabbitMQ's default; a session costs about 1 kB.
    channel_max: int = 63
    # Links of one session.
    handle_max: int = 255
    # Half of the silence after which we end the connection, as the specification advises; 0 means
    # no limit.
    idle_ms: int = 60_000
    # A peer that wants more frequent heartbeats than this is refused: ticks come once a second.
    idle_ms_floor: int = 1_000
    # Transfers that may have arrived and not been taken, per session.
    incoming_window: int = 2_048
    # Deliveries that we may have sent unsettled, per session: it bounds the cost of a peer that
    # gives unlimited credit and never settles.
    outgoing_window: int = 1_048_576
    # From the first octet to our open; RabbitMQ's handshake_timeout.
    handshake_ms: int = 10_000
    # How long we wait for the peer's close; a peer that is alive answers in a round trip.
    closing_ms: int = 5_000
    # One message; above it the link is detached. The same as for AMQP 0-9-1.
    message_bytes_max: int = 134_217_728
    # Partly received deliveries on all links of one connection together; above it the connection is
    # closed. No reasonable client sends more than four of the largest messages at once.
    assembly_bytes_max: int = 4 * 134_217_728
    # What a peer may send ahead while our listener decides about its login or its open. Clients
    # pipeline a few hundred octets.
    ahead_bytes_max: int = 65_536
