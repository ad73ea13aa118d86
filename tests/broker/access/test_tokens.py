"""What a token allows."""

import pytest

from penstock.broker.access.permissions import Permission, ResourceKind
from penstock.broker.access.scopes import read_scopes
from penstock.broker.access.tokens import NEVER_EXPIRES, TokenAccess, TokenGrant
from penstock.broker.access.topic_permissions import TopicAccessTable
from penstock.broker.errors import AccessRefused
from penstock.broker.topology import SetTopicPermissions


def granted(*scopes: str) -> TokenGrant:
    return TokenGrant("ann", (), read_scopes(list(scopes)), NEVER_EXPIRES)


def access(*scopes: str) -> TokenAccess:
    found = granted(*scopes).access("v")
    assert found is not None
    return found


def test_a_virtual_host_that_no_scope_names_cannot_be_opened() -> None:
    assert granted("read:w/*", "write:other*/*").access("v") is None


def test_each_permission_has_its_own_names() -> None:
    found = access("configure:v/q*", "read:*/r", "write:w/*")
    assert found.may(Permission.CONFIGURE, ResourceKind.QUEUE, "q1")
    assert found.may(Permission.READ, ResourceKind.QUEUE, "r")
    assert not found.may(Permission.READ, ResourceKind.QUEUE, "q1")
    # The scope is of another virtual host.
    assert not found.may(Permission.WRITE, ResourceKind.EXCHANGE, "x")
    with pytest.raises(AccessRefused, match="refused for user 'ann'"):
        found.check(Permission.WRITE, ResourceKind.EXCHANGE, "x")


def test_the_default_exchange_has_its_name() -> None:
    found = access("write:v/amq.default")
    assert found.may(Permission.WRITE, ResourceKind.EXCHANGE, "")


def test_topics_take_a_scope_with_a_routing_key() -> None:
    topics = TopicAccessTable()
    # Of a user who has the same name; it says nothing about a token.
    topics.grant(SetTopicPermissions("ann", "v", "x", ".*", ".*"))
    found = access("write:v/x/news.*", "write:v/y")
    topics.check(found, "x", Permission.WRITE, "news.today")
    for exchange, permission, key in (
        ("x", Permission.WRITE, "sports"),
        ("x", Permission.READ, "news.today"),
        ("y", Permission.WRITE, "news.today"),
    ):
        with pytest.raises(AccessRefused):
            topics.check(found, exchange, permission, key)
        assert topics.is_restricted(found, exchange)


def test_a_later_token_replaces_what_was_remembered() -> None:
    found = access("read:v/a")
    assert found.may(Permission.READ, ResourceKind.QUEUE, "a")
    found.renew(access("read:v/b"))
    assert not found.may(Permission.READ, ResourceKind.QUEUE, "a")
    assert found.may(Permission.READ, ResourceKind.QUEUE, "b")
