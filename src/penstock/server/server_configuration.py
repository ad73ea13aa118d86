"""What `penstock serve` was told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from penstock.node.configuration import CONNECTIONS_MAX
from penstock.server.cluster_settings import ClusterConfiguration
from penstock.server.disk_space import FREE_BYTES_MIN
from penstock.server.http.settings import HttpConfiguration
from penstock.server.listening import LOCALHOST
from penstock.server.log_settings import LogConfiguration
from penstock.server.offered_mechanisms import Anonymous
from penstock.server.tls_settings import TlsConfiguration
from penstock.server.token_settings import TokenConfiguration
from penstock.wire.amqp091.limits import Limits


@dataclass(frozen=True, slots=True)
class ServerConfiguration:
    """The configuration of `penstock serve`. The defaults are usable as they are."""

    hosts: tuple[str, ...] = (LOCALHOST,)
    port: int = 5672
    plain: bool = True  # False: clients must come with TLS
    tls: TlsConfiguration = field(default_factory=TlsConfiguration)  # AMQP over TLS
    name: str = ""
    limits: Limits = field(default_factory=Limits)
    connections_max: int = CONNECTIONS_MAX
    memory_bytes_max: int = 0  # 0 is a share of the machine's memory
    definitions: Path | None = None  # imported at every start, before anybody connects
    data: Path | None = None  # None keeps everything in memory
    disk_bytes_min: int = FREE_BYTES_MIN  # publishers are blocked when less is free
    ledger: bool = False  # every message is recorded for audits; needs `data`
    anonymous: Anonymous = "loopback"  # clients that name no user
    mechanisms: tuple[str, ...] = ()  # SASL mechanisms of the AMQP port; empty is the default
    stores_scram_keys: bool = True  # beside the hash, when a password is set
    tokens: TokenConfiguration = field(default_factory=TokenConfiguration)  # OAuth 2
    creates_queues: bool = True  # AMQP 1.0: attaching to a bare name creates a queue
    http: HttpConfiguration = field(default_factory=HttpConfiguration)
    log: LogConfiguration = field(default_factory=LogConfiguration)
    cluster: ClusterConfiguration = field(default_factory=ClusterConfiguration)
