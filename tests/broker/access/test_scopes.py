"""Scopes as RabbitMQ's plugin reads them."""

import pytest

from penstock.broker.access.permissions import Permission
from penstock.broker.access.scopes import read_scopes, read_tags


def matches(pattern: str, text: str) -> bool:
    [scope] = read_scopes([f"read:v/{pattern}"])
    return scope.name.matches(text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("*", ""),
        ("*", "anything"),
        ("foo", "foo"),
        ("foo*", "foo"),
        ("foo*", "foobar"),
        ("*foo", "barfoo"),
        ("*foo", "foofoo"),
        ("foo*bar", "foobar"),
        ("foo*bar", "foo and bar"),
        ("start*middle*end", "start middle middle end"),
        ("*before*after*", "before after"),
        ("a**b", "ab"),
        ("%2F", "/"),
        ("%2A", "*"),
        ("100%25", "100%"),
        ("a+b", "a b"),
        ("%C3%A9t%c3%a9", "été"),
    ],
)
def test_a_pattern_matches_a_text(pattern: str, text: str) -> None:
    assert matches(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", "a"),
        ("foo", "foobar"),
        ("foo", "afoo"),
        ("foo*", "afoo"),
        ("*foo", "foobar"),
        ("foo*bar", "foo"),
        ("foo*bar", "fobar"),
        ("ab*ba", "aba"),
        ("a*b*c", "ac b"),
        ("%2A", "anything"),
        (".*", "anything"),
    ],
)
def test_a_pattern_does_not_match_a_text(pattern: str, text: str) -> None:
    assert not matches(pattern, text)


@pytest.mark.parametrize(
    "scope",
    [
        "read:v",
        "read:v/n/k/more",
        "own:v/n",
        "read",
        "",
        "tag:administrator",
        "read:v/%",
        "read:%zz/n",
    ],
)
def test_what_is_not_a_permission_is_left_out(scope: str) -> None:
    assert read_scopes([scope]) == []


def test_a_scope_names_permission_virtual_host_name_and_routing_key() -> None:
    configure, write = read_scopes(["configure:a*/b", "write:%2F/c/d.*"])
    assert configure.permission is Permission.CONFIGURE
    assert configure.vhost.matches("abc")
    assert configure.routing_key is None
    assert write.permission is Permission.WRITE
    assert write.vhost.matches("/")
    assert write.routing_key is not None
    assert write.routing_key.matches("d.e")


def test_a_costly_pattern_takes_no_longer_than_others() -> None:
    # As a regular expression this would take years.
    assert not matches("a*" * 100 + "b", "a" * 255)


def test_tags_are_scopes_too() -> None:
    assert read_tags(["tag:monitoring", "tag:administrator", "tag:", "read:a/b"]) == (
        "administrator",
        "monitoring",
    )
