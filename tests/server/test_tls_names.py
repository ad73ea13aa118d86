"""Names in certificates, as RabbitMQ writes them."""

import pytest

from penstock.server.tls_names import common_name, distinguished_name

Subject = tuple[tuple[tuple[str, str], ...], ...]

ONE = (("commonName", "meter"),)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ((), ""),
        ((ONE,), "CN=meter"),
        (
            ((("countryName", "NZ"),), (("organizationName", "Water"),), ONE),
            "CN=meter,O=Water,C=NZ",
        ),
        (((("commonName", "a"), ("userId", "7")),), "CN=a+UID=7"),
        (((("commonName", 'a,b+"c"\\<>;'),),), r"CN=a\,b\+\"c\"\\\<\>\;"),
        (((("commonName", " a "),),), r"CN=\ a\ "),
        (((("commonName", "#a"),),), r"CN=\#a"),
        (((("commonName", " "),),), "CN=\\ "),
        (((("1.2.3.4", "x"),),), "1.2.3.4=x"),
    ],
)
def test_a_distinguished_name_begins_with_its_last_part(subject: Subject, name: str) -> None:
    assert distinguished_name(subject) == name


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ((), ""),
        (((("organizationName", "Water"),),), ""),
        ((ONE,), "meter"),
        ((ONE, (("commonName", "gauge"),)), "meter,gauge"),
    ],
)
def test_the_common_name_is_taken_as_it_is(subject: Subject, name: str) -> None:
    assert common_name(subject) == name
