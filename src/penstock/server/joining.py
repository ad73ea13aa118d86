"""A server that is a member of a cluster: where it listens, and what its node is told."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.broker.replication_level import ReplicationLevel
from penstock.cluster.links import LinkSettings
from penstock.cluster.member import parse_address
from penstock.cluster.timing import Timing, scaled
from penstock.node.cluster_changes import ChangeState, ChangeVerb, ClusterChange
from penstock.node.cluster_settings import ClusterSettings
from penstock.node.joining import ActiveRootListener, ClusterPlan
from penstock.server.dialler import SocketDialler
from penstock.server.listening import LOCALHOST, LOOPBACK_ADDRESSES
from penstock.server.server_configuration import ServerConfiguration
from penstock.world.clock import Clock
from penstock.world.network import DialAddress, Dialler, DialListener

if TYPE_CHECKING:
    from penstock.server.cluster_directory import MemberFiles
    from penstock.server.cluster_settings import ClusterConfiguration
    from penstock.server.server import Server
    from penstock.server.tls_settings import DialTls

# Hosts that include every address of the machine.
_EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})
_DEFAULTS: Final = ServerConfiguration()
# How often a root that stops looks whether another server has taken over.
LOOK_SECONDS: Final = 0.02


class AddressContradicted(Exception):
    """The configuration wants to listen elsewhere than the member's address; the text says how."""


class MemberDialler(Dialler):
    """The dialler of a node that is made before its server. Held by the node."""

    def __init__(self) -> None:
        self._sockets: SocketDialler | None = None

    def attach(self, server: Server, cluster: ClusterConfiguration) -> None:
        """Raises `BadCertificate`."""
        self._sockets = SocketDialler(server, cluster.tls, allows_plain=cluster.plain_text)

    def reload(self, tls: DialTls) -> None:
        """New files, for links that are made from now on. Raises `BadCertificate`."""
        if self._sockets is not None:
            self._sockets.reload(tls)

    def dial(self, address: DialAddress, listener: DialListener) -> None:
        assert self._sockets is not None, "attached before the first tick"
        self._sockets.dial(address, listener)


def listening_as(
    configuration: ServerConfiguration, member: MemberFiles, is_port_named: bool
) -> ServerConfiguration:
    """The configuration with the member's address for the default host and port. Raises
    `AddressContradicted`.
    """
    place = parse_address(member.address)
    if not place.is_tls:
        _check_hosts(configuration.hosts, _DEFAULTS.hosts, place.host, member, "--host")
        has_port = is_port_named or configuration.port != _DEFAULTS.port
        if has_port and configuration.port != place.port:
            raise AddressContradicted(_contradiction(member, f"--port {configuration.port}"))
        if not configuration.plain:
            raise AddressContradicted(_contradiction(member, "--no-plain"))
        hosts = _hosts(configuration.hosts, place.host)
        return replace(configuration, hosts=hosts, port=place.port)
    tls = configuration.tls
    _check_hosts(tls.hosts, (), place.host, member, "tls.host")
    if tls.port not in (place.port, _DEFAULTS.tls.port):
        raise AddressContradicted(_contradiction(member, f"--tls-port {tls.port}"))
    certificate, key = tls.certificate, tls.key
    if certificate is None:
        certificate, key = configuration.cluster.tls.certificate, configuration.cluster.tls.key
    if certificate is None:
        raise AddressContradicted(
            f"the address of member {member.name!r} is {member.address}, which needs a certificate. "
            "Name it with --tls-cert FILE, or set cluster.tls_certificate"
        )
    plain = configuration.plain and (is_port_named or configuration.port != _DEFAULTS.port)
    http = configuration.http
    if not http.hosts and configuration.hosts == _DEFAULTS.hosts:
        # Else it would follow the clear-text listener, which need not be open and stays on localhost.
        http = replace(http, hosts=(place.host,))
    return replace(
        configuration,
        plain=plain,
        http=http,
        tls=replace(
            tls,
            certificate=certificate,
            key=key,
            port=place.port,
            hosts=_hosts(tls.hosts, place.host),
        ),
    )


def _hosts(configured: tuple[str, ...], host: str) -> tuple[str, ...]:
    """More hosts than the member's own may be named."""
    return configured if _covers(configured, host) and configured != _DEFAULTS.hosts else (host,)


def _covers(hosts: tuple[str, ...], host: str) -> bool:
    is_loopback = host in LOOPBACK_ADDRESSES and LOCALHOST in hosts
    return host in hosts or is_loopback or bool(_EVERYWHERE.intersection(hosts))


def _check_hosts(
    hosts: tuple[str, ...], defaults: tuple[str, ...], host: str, member: MemberFiles, option: str
) -> None:
    if hosts != defaults and not _covers(hosts, host):
        raise AddressContradicted(_contradiction(member, f"{option} {' '.join(hosts)}"))


def _contradiction(member: MemberFiles, said: str) -> str:
    return (
        f"this is member {member.name!r} of a cluster, whose address is {member.address}; {said} "
        "contradicts that. Omit it"
    )


async def leave_root(server: Server) -> None:
    """Before the root stops: another server takes over, so that clients need not wait for the end of
    a lease. Gives up after a moment: a cluster survives a root that just goes.
    """
    member = server.node.member
    if member is None or not member.may_serve(server.now()):
        return
    change = ClusterChange(member, ChangeVerb.HAND_OVER, "", "")
    until = server.now() + 2 * member.settings.timing.hand_over_ms
    if change.begin(server.now()):
        return
    while server.now() < until:
        server.schedule_flush()
        if change.look(server.now()).state is not ChangeState.UNDER_WAY:
            return
        await asyncio.sleep(LOOK_SECONDS)


def cluster_plan(
    member: MemberFiles,
    cluster: ClusterConfiguration,
    dialler: MemberDialler,
    listener: ActiveRootListener | None,
    clock: Clock,
) -> ClusterPlan:
    """What the node of a member is told."""
    timing = replace(
        scaled(Timing(), cluster.timing_percent, 100), pause_ms=cluster.pause_seconds * 1000
    )
    decisive = (timing, cluster.replicate)
    digest = hashlib.sha256(repr(decisive).encode()).hexdigest()
    settings = ClusterSettings(
        member.name,
        member.key,
        digest,
        ReplicationLevel(cluster.replicate),
        timing,
        LinkSettings(allows_plain=cluster.plain_text),
    )
    return ClusterPlan(settings, dialler, clock, listener)
