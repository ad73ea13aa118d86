"""What a member of a cluster is told by its configuration. Light to import: every start reads it."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.server.tls_settings import DialTls


@dataclass(frozen=True, slots=True)
class ClusterConfiguration:
    """`[cluster]`. Held by the server's configuration; unused without a cluster."""

    # For links to other servers; its certificate is also shown at a member's `amqps://` address
    # when `[tls]` names none.
    tls: DialTls = field(default_factory=DialTls)
    # Whether links to other machines may do without TLS.
    plain_text: bool = False
    # All times of the protocol, in hundredths of their defaults; the same on every member.
    timing_percent: int = 100
    # How long clients wait for a root at most; the same on every member.
    pause_seconds: int = 60
    # The level of queues and exchanges that are declared without one; the same on every member.
    replicate: str = "all"
