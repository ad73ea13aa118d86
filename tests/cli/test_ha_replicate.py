"""`penstock ha replicate`: where the password of the source may stand."""

import pytest

from penstock.cli.operators.ha import _with_password


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("amqp://me@host/", "amqp://me:p%40ss%2F@host/"),
        ("amqp://me@a:1,b:2/v?heartbeat=5", "amqp://me:p%40ss%2F@a:1,b:2/v?heartbeat=5"),
        ("amqp://me@a/,amqps://me@b/", "amqp://me:p%40ss%2F@a/,amqps://me:p%40ss%2F@b/"),
        ("amqp://host/", "amqp://host/"),
        ("amqp://me:own@host/", "amqp://me:own@host/"),
    ],
)
def test_a_password_goes_to_every_user_of_an_address_that_has_none(uri: str, found: str) -> None:
    assert _with_password(uri, "p@ss/") == found
