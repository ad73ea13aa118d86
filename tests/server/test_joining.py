"""Where a member of a cluster listens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.server.cluster_directory import MemberFiles
from penstock.server.cluster_settings import ClusterConfiguration
from penstock.server.http.settings import HttpConfiguration
from penstock.server.joining import (
    AddressContradicted,
    MemberDialler,
    cluster_plan,
    listening_as,
)
from penstock.server.server_configuration import ServerConfiguration
from penstock.server.tls_settings import DialTls
from penstock.server.world.clock import MachineClock

PLAIN = MemberFiles("b", "127.0.0.1:5673", b"k" * 16)
SECURE = MemberFiles("b", "amqps://127.0.0.1:5700", b"k" * 16)


def test_the_members_address_replaces_the_defaults() -> None:
    found = listening_as(ServerConfiguration(), PLAIN, is_port_named=False)
    assert (found.hosts, found.port) == (("127.0.0.1",), 5673)


def test_what_agrees_with_the_address_may_be_said() -> None:
    said = ServerConfiguration(hosts=("127.0.0.1", "10.0.0.1"), port=5673)
    assert listening_as(said, PLAIN, is_port_named=True) == said
    everywhere = ServerConfiguration(hosts=("0.0.0.0",))
    assert listening_as(everywhere, PLAIN, is_port_named=False).hosts == ("0.0.0.0",)


@pytest.mark.parametrize(
    ("said", "is_port_named"),
    [
        (ServerConfiguration(port=5672), True),
        (ServerConfiguration(port=1), False),
        (ServerConfiguration(hosts=("10.0.0.1",)), False),
        (ServerConfiguration(plain=False), False),
    ],
)
def test_what_contradicts_the_address_is_refused(
    said: ServerConfiguration, is_port_named: bool
) -> None:
    with pytest.raises(AddressContradicted, match=r"127\.0\.0\.1:5673"):
        listening_as(said, PLAIN, is_port_named)


def test_an_amqps_address_is_the_tls_listeners() -> None:
    files = DialTls(Path("c.pem"), Path("c.key"))
    said = ServerConfiguration(cluster=ClusterConfiguration(files))
    found = listening_as(said, SECURE, is_port_named=False)
    assert (found.plain, found.tls.port, found.tls.hosts) == (False, 5700, ("127.0.0.1",))
    assert (found.tls.certificate, found.tls.key) == (Path("c.pem"), Path("c.key"))
    # Clients may have a plain port of their own, which does not leave the machine by itself.
    both = listening_as(replace(said, port=5672), SECURE, is_port_named=True)
    assert (both.plain, both.hosts) == (True, said.hosts)


def test_http_is_at_the_members_address_unless_another_one_is_named() -> None:
    files = DialTls(Path("c.pem"), Path("c.key"))
    said = ServerConfiguration(cluster=ClusterConfiguration(files))
    assert listening_as(said, SECURE, is_port_named=False).http.hosts == ("127.0.0.1",)
    named = replace(said, http=HttpConfiguration(hosts=("10.0.0.9",)))
    assert listening_as(named, SECURE, is_port_named=False).http.hosts == ("10.0.0.9",)
    everywhere = replace(said, hosts=("0.0.0.0",))
    assert listening_as(everywhere, SECURE, is_port_named=False).http.hosts == ()


def test_an_amqps_address_needs_a_certificate() -> None:
    with pytest.raises(AddressContradicted, match="needs a certificate"):
        listening_as(ServerConfiguration(), SECURE, is_port_named=False)


def test_members_with_other_times_or_another_level_have_another_digest() -> None:
    def digest(cluster: ClusterConfiguration) -> str:
        return cluster_plan(PLAIN, cluster, MemberDialler(), None, MachineClock()).settings.digest

    usual = digest(ClusterConfiguration())
    assert digest(ClusterConfiguration(plain_text=True)) == usual
    assert digest(ClusterConfiguration(timing_percent=200)) != usual
    assert digest(ClusterConfiguration(pause_seconds=5)) != usual
    assert digest(ClusterConfiguration(replicate="none")) != usual
