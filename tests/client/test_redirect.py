"""The root that a server of a cluster names."""

from __future__ import annotations

import pytest

from penstock.client.errors import ConnectFailed, ConnectionClosedError
from penstock.client.redirect import REDIRECTS_MAX, Tour, root_of
from penstock.client.uri import Address, Tls

ASKED = Address(host="first", port=1, user="ann", password="secret", vhost="v")
OTHER = Address(host="second", port=2)


def elsewhere(address: str) -> ConnectionClosedError:
    text = f"another server is the root of this cluster: connect to {address}"
    return ConnectionClosedError(320, f"CONNECTION_FORCED - {text}")


def test_the_root_has_the_login_of_the_server_that_was_asked() -> None:
    found = root_of(elsewhere("10.0.0.2:5673"), ASKED)
    assert found == Address(host="10.0.0.2", port=5673, user="ann", password="secret", vhost="v")


def test_the_root_may_be_reached_with_tls_or_over_ipv6() -> None:
    found = root_of(elsewhere("amqps://[::1]:5671"), ASKED)
    assert found is not None
    assert (found.host, found.port, found.tls) == ("::1", 5671, Tls())


@pytest.mark.parametrize(
    "error",
    [
        ConnectionClosedError(320, "CONNECTION_FORCED - shutdown"),
        ConnectionClosedError(403, elsewhere("h:1").text),
        elsewhere("h"),
        elsewhere("h:123456"),
        elsewhere("h:1 or else"),
    ],
)
def test_nothing_else_names_a_root(error: ConnectionClosedError) -> None:
    assert root_of(error, ASKED) is None


def test_the_named_root_comes_before_the_other_addresses() -> None:
    tour = Tour([ASKED, OTHER])
    first = tour.next_address()
    assert first == ASKED
    assert tour.was_closed(ASKED, elsewhere("second:2"))
    root = tour.next_address()
    assert root is not None
    assert (root.host, root.user) == ("second", "ann")


def test_a_server_that_knows_no_root_is_left_for_the_next_one() -> None:
    tour = Tour([ASKED, OTHER])
    tour.next_address()
    assert tour.was_closed(ASKED, ConnectionClosedError(320, "no root"))
    assert tour.next_address() == OTHER
    tour.unreachable([("second", "refused")])
    assert tour.next_address() is None
    assert isinstance(tour.failure(), ConnectFailed)


def test_servers_that_name_one_another_end_the_tour() -> None:
    tour = Tour([ASKED])
    count = 0
    while (address := tour.next_address()) is not None:
        count += 1
        tour.was_closed(address, elsewhere(f"h{count % 2}:1"))
    assert count == REDIRECTS_MAX + 1


def test_another_reason_ends_the_tour_at_once() -> None:
    assert not Tour([ASKED, OTHER]).was_closed(ASKED, ConnectionClosedError(403, "login refused"))


def test_a_single_server_that_closes_tells_its_own_reason() -> None:
    tour = Tour([ASKED])
    tour.next_address()
    error = ConnectionClosedError(320, "shutdown")
    tour.was_closed(ASKED, error)
    assert tour.failure() is error
