"""The settings of the HTTP server, and its limits. Light to import: every start of a broker reads
it.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.server.tls_settings import ListenerTls, MinimumVersion

# As RabbitMQ's management port, which goes with its AMQP port 5672.
HTTP_PORT: Final = 15_672
AMQP_PORT: Final = 5672

# The kernel's queue of connections not yet accepted. It also holds those that come before the
# thread has imported what it needs.
BACKLOG: Final = 512
# Open sockets, WebSockets included. At the limit the socket that has been idle longest is closed;
# when all have a request in progress, the new one is. The AMQP port has a much higher limit.
SOCKETS_MAX: Final = 4096
# Concurrent requests; further ones get 503 with Retry-After. A refused login waits for seconds
# and counts, so guessing passwords in parallel ends here.
REQUESTS_MAX: Final = 256
# The head of a request, its first line and headers; more is refused with 431.
HEADER_BYTES_MAX: Final = 32 * 1024
# Lines of it. Parsing thousands of empty headers would occupy the HTTP server's loop.
HEADER_LINES_MAX: Final = 256
# A body may come in this many chunks of any size; when there are more, they must have this many
# bytes on average. Parsing a chunk takes as long for one octet as for a thousand.
CHUNKS_FREE: Final = 64
CHUNK_BYTES_MEAN: Final = 512
# Bodies are small JSON objects; more is refused with 413.
BODY_BYTES_MAX: Final = 64 * 1024
# The limit for bodies with rows for a sink. They are journalled as one batch, and decoded on the
# broker's loop.
ROWS_BYTES_MAX: Final = 8 * 1024 * 1024
# How many of those are read and staged at once; others wait unread.
ROWS_AT_ONCE: Final = 8
# A message that is published over HTTP, as JSON: its payload in base64 may have 6 MB.
PUBLISH_BYTES_MAX: Final = 8 * 1024 * 1024
# Definitions: 32 MiB are about 200,000 queues.
DEFINITIONS_BYTES_MAX: Final = 32 * 1024 * 1024
# So many of each of these two kinds are read at once, and so many of one user; others wait with
# their bytes unread. They are held in memory as a whole: 64 MiB of messages, and definitions take
# several times their size when they are parsed.
PUBLISHES_AT_ONCE: Final = 8
PUBLISHES_OF_USER: Final = 4
DEFINITIONS_AT_ONCE: Final = 2
DEFINITIONS_OF_USER: Final = 1
# A request that has waited so long for its turn is answered with 503.
LARGE_BODY_TURN_SECONDS: Final = 60.0
# Their minimum speed, beyond `BODY_SECONDS`: a message of 8 MiB has 47 s, definitions of 32 MiB have
# 143 s.
LARGE_BODY_BYTES_PER_SECOND: Final = 256 * 1024
# A commit's body names every partition: as many as a sink has, in digits.
COMMIT_BYTES_MAX: Final = 4 * 1024 * 1024
# A socket that has not sent the whole head of a request by then is answered with 408 and closed.
FIRST_REQUEST_SECONDS: Final = 15.0
# The minimum speed of a body: this long for nothing, and this many bytes in every further second. A
# slower one is refused with 408, because it occupies one of the concurrent requests.
BODY_SECONDS: Final = 15.0
BODY_BYTES_PER_SECOND: Final = 64 * 1024
# A peer that does not read what is sent to it for this long is disconnected: it holds memory.
WRITE_SECONDS: Final = 60.0
# An idle connection is kept this long for the next request.
KEEP_ALIVE_SECONDS: Final = 30
# How long requests in progress may take when the broker stops.
STOP_SECONDS: Final = 2


@dataclass(frozen=True, slots=True)
class HttpConfiguration:
    """Held by the server's configuration."""

    enabled: bool = True
    hosts: tuple[str, ...] = ()  # empty means the hosts of the AMQP listeners
    port: int = HTTP_PORT
    certificate: Path | None = None
    key: Path | None = None  # None: the key is in the certificate's file
    # The CA of the certificates that clients must show; None requires none.
    client_authorities: Path | None = None
    # Certificates that the authorities have revoked; needs `client_authorities`.
    client_revocations: Path | None = None
    minimum_version: MinimumVersion = "1.2"
    # Names by which clients may address the server in the Host header, beside its own.
    allowed_hosts: tuple[str, ...] = ()
    # Pages of these origins may open WebSockets, beside those that come from this server itself.
    origins: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()  # SASL mechanisms over WebSockets; empty is the default
    # Whether the port was set explicitly, so that another AMQP port does not change it.
    is_port_named: bool = field(default=False, compare=False)

    def files(self) -> ListenerTls:
        return ListenerTls(
            self.certificate,
            self.key,
            self.client_authorities,
            self.client_revocations,
            minimum_version=self.minimum_version,
        )

    def port_beside(self, amqp_port: int) -> int:
        """The port to listen on. Without an explicit port it is any free one, unless the AMQP port
        is the default too: a second broker must not collide with the first.
        """
        return self.port if self.is_port_named or amqp_port == AMQP_PORT else 0
