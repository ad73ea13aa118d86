"""Where direct publishing goes, and with which login and which certificates."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StringType, StructField, StructType

from penstock.client.uri import Address, Tls
from penstock.spark.direct_publish import amqp_addresses
from penstock.spark.errors import OptionError
from penstock.spark.write_options import write_options

SCHEMA = StructType([StructField("body", StringType())])
TLS_FILES = {"tlsCaFile": "ca.pem", "tlsCertFile": "c.pem", "tlsKeyFile": "c.key"}


def address(**given: str) -> Address:
    options = {"exchange": "", "routingKey": "q", "deduplicate": "false", **given}
    return amqp_addresses(write_options(options, SCHEMA))[0]


def test_the_default_is_the_plain_port_of_the_first_host() -> None:
    found = address(uri="http://me:secret@one:1/v,http://me:secret@two/v")
    assert found == Address(host="one", port=5672, user="me", password="secret", vhost="v")


def test_an_https_address_means_tls_with_the_same_files() -> None:
    found = address(uri="https://one/", **TLS_FILES)
    assert (found.host, found.port) == ("one", 5671)
    assert found.tls == Tls("ca.pem", "c.pem", "c.key")


def test_an_amqps_address_takes_its_login_and_its_files_from_the_options(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from a file\n")
    found = address(
        uri="https://one/",
        amqpUri="amqps://two:7/v",
        user="me",
        password=f"file:{secret}",
        tlsVerify="false",
        **TLS_FILES,
    )
    assert (found.host, found.port, found.vhost) == ("two", 7, "v")
    assert (found.user, found.password) == ("me", "from a file")
    assert found.tls == Tls("ca.pem", "c.pem", "c.key", verify_peer=False)


def test_what_the_amqp_address_says_itself_is_kept() -> None:
    found = address(
        uri="https://one/", amqpUri="amqps://you:x@two/?cacertfile=mine.pem", **TLS_FILES
    )
    assert (found.user, found.password) == ("you", "x")
    assert found.tls == Tls("mine.pem", "c.pem", "c.key")


def test_an_address_that_is_not_one_is_refused_by_its_option() -> None:
    with pytest.raises(OptionError, match="amqpUri"):
        address(uri="http://one/", amqpUri="http://two/")
