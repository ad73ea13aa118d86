"""Addresses: every part, every refusal, and no password in any text."""

import pytest

from penstock.client.errors import ClientError, UriInvalid
from penstock.client.uri import Address, Tls, addresses_of, decode_uri, decode_uris


def test_everything_missing_means_the_defaults() -> None:
    assert decode_uri("amqp://") == Address()


def test_every_part_is_read() -> None:
    address = decode_uri("amqp://ann:secret@broker.example:1234/orders")
    assert (address.user, address.password) == ("ann", "secret")
    assert (address.host, address.port) == ("broker.example", 1234)
    assert address.vhost == "orders"
    assert address.tls is None


def test_parts_are_percent_decoded_one_by_one() -> None:
    address = decode_uri("amqp://user%61:%61pass@ho%61st:10000/v%2fhost")
    assert (address.user, address.password) == ("usera", "apass")
    assert (address.host, address.vhost) == ("hoast", "v/host")


@pytest.mark.parametrize("path", ["", "/", "/%2f", "/%2F"])
def test_no_path_a_bare_slash_and_an_encoded_slash_name_the_default_vhost(path: str) -> None:
    assert decode_uri(f"amqp://host{path}").vhost == "/"


def test_an_empty_password_stays_empty() -> None:
    address = decode_uri("amqp://ann:@host")
    assert (address.user, address.password) == ("ann", "")


def test_an_ipv6_host_stands_in_brackets() -> None:
    address = decode_uri("amqp://[::1]:5673")
    assert (address.host, address.port) == ("::1", 5673)
    assert str(address) == "amqp://guest@[::1]:5673/"


def test_query_parameters_set_the_limits() -> None:
    address = decode_uri(
        "amqp://host?heartbeat=7&frame_max=8192&channel_max=3&connection_timeout=250"
    )
    assert address.heartbeat_seconds == 7
    assert address.frame_max == 8192
    assert address.channel_max == 3
    assert address.connect_timeout_milliseconds == 250


def test_parameters_of_other_clients_are_ignored() -> None:
    assert decode_uri("amqp://localhost?retry_delay=3&socket_timeout=2") == Address()


def test_amqps_brings_its_port_and_verifies_the_peer() -> None:
    address = decode_uri("amqps://host?cacertfile=/ca.pem")
    assert address.port == 5671
    assert address.tls == Tls(cacertfile="/ca.pem", verify_peer=True)


def test_verification_is_only_switched_off_by_name() -> None:
    tls = decode_uri("amqps://host?verify=verify_none").tls
    assert tls is not None
    assert not tls.verify_peer


@pytest.mark.parametrize(
    "uri",
    [
        "http://host",
        "host:5672",
        "amqp://host:port",
        "amqp://host:70000",
        "amqp://host/a/b",
        "amqp://host/%ff",
        "amqp://host?heartbeat=-1",
        "amqp://host?heartbeat=70000",
        "amqp://host?heartbeat=soon",
        "amqp://host?bogus=1",
        "amqp://host?certfile=/c.pem",
        "amqps://host?verify=perhaps",
    ],
)
def test_what_cannot_be_meant_is_refused(uri: str) -> None:
    with pytest.raises(UriInvalid):
        decode_uri(uri)


def test_no_text_for_people_shows_the_password() -> None:
    assert "secret" not in str(decode_uri("amqp://ann:secret@host/v"))
    with pytest.raises(UriInvalid) as caught:
        decode_uri("http://ann:secret@host/v")
    assert "secret" not in str(caught.value)


def test_several_hosts_share_the_login_the_virtual_host_and_the_options() -> None:
    found = decode_uris("amqp://ann:s,ecret@one:1,two,[::1]:3/orders?heartbeat=7")
    assert [(one.host, one.port) for one in found] == [("one", 1), ("two", 5672), ("::1", 3)]
    assert {(one.user, one.password, one.vhost) for one in found} == {("ann", "s,ecret", "orders")}
    assert {one.heartbeat_seconds for one in found} == {7}


def test_several_whole_addresses_are_read_one_by_one() -> None:
    found = addresses_of(["amqp://one/v, amqps://two/v", Address(host="three")])
    assert [(one.host, one.tls is not None) for one in found] == [
        ("one", False),
        ("two", True),
        ("three", False),
    ]


def test_a_missing_host_among_several_is_refused() -> None:
    with pytest.raises(UriInvalid, match="a host is missing"):
        decode_uris("amqp://one,,two/")
    assert decode_uris("amqp://") == [Address()]


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(ClientError, match="no address was given"):
        addresses_of([])
