"""Several addresses, one port; a machine without IPv6."""

import errno
import os
import socket

import httpx
import pytest
from structlog.testing import capture_logs

from penstock.server.listening import LOCALHOST, CannotListen, address_of, bound, shown
from tests.server.opened import pika_connection
from tests.support.served import Served, amqp_port

BACKLOG = 5


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def without_ipv6(family: int, kind: int, protocol: int) -> socket.socket:
    """What a kernel without it says."""
    if family == socket.AF_INET6:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
    return socket.socket(family, kind, protocol)


def addresses(sockets: list[socket.socket]) -> list[tuple[str, int]]:
    found = [address_of(listening) for listening in sockets]
    for listening in sockets:
        listening.close()
    return found


@needs_ipv6
def test_localhost_is_both_loopback_addresses_on_one_port() -> None:
    (first, port), (second, other_port) = addresses(bound((LOCALHOST,), 0, BACKLOG))
    assert [first, second] == ["127.0.0.1", "::1"]
    assert port == other_port > 0


def test_a_machine_without_ipv6_has_one_of_them_and_says_so() -> None:
    with capture_logs() as said:
        ((host, _),) = addresses(bound((LOCALHOST,), 0, BACKLOG, without_ipv6))
    assert host == "127.0.0.1"
    (line,) = said
    assert line["address"] == "::1"


@pytest.mark.parametrize("hosts", [("::1",), ("127.0.0.1", "::1")])
def test_an_ipv6_address_that_was_asked_for_by_itself_must_be_there(hosts: tuple[str, ...]) -> None:
    with pytest.raises(CannotListen, match=r"cannot listen on \[::1\]:\d+: Address family"):
        bound(hosts, 0, BACKLOG, without_ipv6)


def test_an_address_named_twice_is_one() -> None:
    assert len(addresses(bound(("127.0.0.1", "127.0.0.2", "127.0.0.1"), 0, BACKLOG))) == 2


def test_hosts_come_in_their_order_on_the_port_of_the_first() -> None:
    (first, port), (second, same) = addresses(bound(("127.0.0.2", "127.0.0.1"), 0, BACKLOG))
    assert (first, second, port) == ("127.0.0.2", "127.0.0.1", same)


def test_a_taken_port_names_the_address_and_leaves_none_open() -> None:
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"127.0.0.2:{port}: Address already in use"):
            bound(("127.0.0.1", "127.0.0.2"), port, BACKLOG)
        # The first of them is free again.
        bound(("127.0.0.1",), port, BACKLOG)[0].close()


class Unlucky:
    """Whatever port the first address gets, the second one's is taken."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, family: int, kind: int, protocol: int) -> socket.socket:
        self.count += 1
        return TakenSocket(family, kind, protocol)


class TakenSocket(socket.socket):
    def bind(self, address: object) -> None:
        assert isinstance(address, tuple)
        if address[0] == "127.0.0.2" and address[1]:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        super().bind(address)


def test_when_no_free_port_is_free_on_all_addresses_each_gets_its_own() -> None:
    unlucky = Unlucky()
    (_, port), (_, other_port) = addresses(bound(("127.0.0.1", "127.0.0.2"), 0, BACKLOG, unlucky))
    assert port != other_port
    assert unlucky.count > 10, "other ports were tried first"


def test_a_name_that_is_none_is_said_clearly() -> None:
    with pytest.raises(CannotListen, match=r"cannot listen on no\.such\.host\.invalid"):
        bound(("no.such.host.invalid",), 0, BACKLOG)


def test_an_ipv6_address_is_shown_as_in_a_url() -> None:
    assert [shown(("127.0.0.1", 1)), shown(("::1", 2))] == ["127.0.0.1:1", "[::1]:2"]


@needs_ipv6
def test_a_broker_serves_both_families_by_default(served: Served) -> None:
    facts = served.ready()
    port = amqp_port(facts)
    assert facts["amqp"] == f"127.0.0.1:{port}"
    assert facts["amqp_also"] == f"[::1]:{port}"
    for host in ("127.0.0.1", "[::1]", "localhost"):
        # The default user is let in: both are this machine's loopback.
        pika_connection(f"amqp://{host}:{port}").close()
    for address in (facts["http"], facts["http_also"]):
        assert httpx.get(f"http://{address}/health/live").status_code == 200


def test_a_broker_listens_on_every_host_it_is_given(served: Served) -> None:
    facts = served.ready("--host=127.0.0.2", "--host=127.0.0.1")
    port = amqp_port(facts)
    assert facts["amqp"] == f"127.0.0.2:{port}"
    assert facts["amqp_also"] == f"127.0.0.1:{port}"
    for host in ("127.0.0.1", "127.0.0.2"):
        pika_connection(f"amqp://{host}:{port}").close()
