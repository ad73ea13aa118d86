"""The limits of one connection."""

from dataclasses import dataclass
from typing import Final

# The specification's floor: every peer accepts frames of this size (4.2.3, frame-min-size).
FRAME_MAX_FLOOR: Final = 4096
# Before tuning no frame is larger in practice: a start-ok with a long client-properties table is
# about 1 kB. RabbitMQ uses the same number.
FRAME_MAX_BEFORE_TUNING: Final = 8192
# The smallest channel-max: a peer may always open this many channels.
CHANNEL_MAX_FLOOR: Final = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Given to every connection when it is made; never changed afterwards."""

    # RabbitMQ's defaults for the three values of connection.tune.
    frame_max: int = 131_072
    channel_max: int = 2_047
    heartbeat_seconds: int = 60
    # From the first byte to connection.open-ok; RabbitMQ's handshake_timeout. On a client that waits
    # for open-ok, the longest silence: a server that holds it sends heartbeats.
    handshake_ms: int = 10_000
    # How long we wait for connection.close-ok, or for the end of the socket after our own; a peer
    # that is alive answers in a round trip. Then the socket is closed.
    closing_ms: int = 5_000
    # One message's body; above it the channel is closed with 406. RabbitMQ's default since 3.8.
    message_bytes_max: int = 134_217_728
    # Partly received contents on all channels of one connection together; above it the connection
    # is closed with 506. No reasonable client sends more than four of the largest messages at once.
    assembly_bytes_max: int = 4 * 134_217_728
