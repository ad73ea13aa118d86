"""Which routing keys a user may publish and bind with."""

import pytest

from penstock.broker.access.permissions import Access, Permission
from penstock.broker.access.topic_permissions import TopicAccessTable
from penstock.broker.errors import AccessRefused, PreconditionFailed
from penstock.broker.topology import SetTopicPermissions


def may(table: TopicAccessTable, permission: Permission, key: str, exchange: str = "e") -> bool:
    try:
        table.check(Access("ann", "v"), exchange, permission, key)
    except AccessRefused:
        return False
    return True


def granted(write: str, read: str) -> TopicAccessTable:
    table = TopicAccessTable()
    table.grant(SetTopicPermissions("ann", "v", "e", write, read))
    return table


def test_without_a_topic_permission_every_key_is_allowed() -> None:
    table = granted("^$", "^$")
    assert may(table, Permission.WRITE, "a", "other")
    table.check(Access("bob", "v"), "e", Permission.WRITE, "a")
    table.check(Access("ann", "w"), "e", Permission.WRITE, "a")


def test_write_and_read_have_patterns_of_their_own_which_may_match_anywhere() -> None:
    table = granted("news", "^a")
    assert may(table, Permission.WRITE, "the.news.today")
    assert not may(table, Permission.WRITE, "a")
    assert may(table, Permission.READ, "a")
    assert not may(table, Permission.READ, "the.news.today")


def test_an_empty_pattern_allows_no_key_but_the_empty_one() -> None:
    table = granted("", "")
    assert not may(table, Permission.WRITE, "a")
    assert may(table, Permission.WRITE, "")


def test_variables_stand_for_the_user_and_the_virtual_host() -> None:
    table = granted(r"^{username}\.{vhost}$", "{other}")
    assert may(table, Permission.WRITE, "ann.v")
    assert not may(table, Permission.WRITE, "bob.v")
    [access] = table.listed()
    assert access.write == r"^{username}\.{vhost}$"


@pytest.mark.parametrize(("user", "key"), [(".*", "anything"), ("a.b", "axb"), ("(", "x")])
def test_a_name_is_not_taken_for_an_expression(user: str, key: str) -> None:
    table = TopicAccessTable()
    table.grant(SetTopicPermissions(user, "v", "e", "^{username}$", ""))
    table.check(Access(user, "v"), "e", Permission.WRITE, user)
    with pytest.raises(AccessRefused):
        table.check(Access(user, "v"), "e", Permission.WRITE, key)


def test_a_refusal_names_topic_exchange_virtual_host_and_user() -> None:
    with pytest.raises(AccessRefused) as refused:
        granted("^a", "").check(Access("ann", "v"), "e", Permission.WRITE, "b")
    expected = "access to topic 'b' in exchange 'e' in vhost 'v' refused for user 'ann'"
    assert refused.value.text == expected


@pytest.mark.parametrize(("write", "read"), [("(", ""), ("", "[")])
def test_a_pattern_that_is_no_expression_is_refused_and_changes_nothing(
    write: str, read: str
) -> None:
    table = granted("^a", "^a")
    with pytest.raises(PreconditionFailed, match="is not a valid regular expression"):
        table.grant(SetTopicPermissions("ann", "v", "e", write, read))
    assert may(table, Permission.WRITE, "a")


def test_permissions_are_revoked_for_one_exchange_or_for_all() -> None:
    table = granted("^$", "")
    table.grant(SetTopicPermissions("ann", "v", "f", "^$", ""))
    table.revoke("ann", "v", "e")
    table.revoke("ann", "v", "unknown")
    table.revoke("ann", "unknown", "")
    assert [access.exchange for access in table.listed()] == ["f"]
    table.grant(SetTopicPermissions("ann", "v", "e", "^$", ""))
    table.revoke("ann", "v", "")
    assert table.listed() == []


def test_permissions_go_with_their_user_and_their_virtual_host() -> None:
    table = granted("", "")
    table.grant(SetTopicPermissions("ann", "w", "e", "", ""))
    table.grant(SetTopicPermissions("bob", "w", "e", "", ""))
    table.revoke_user("bob")
    assert {access.user for access in table.listed()} == {"ann"}
    table.revoke_vhost("w")
    assert {access.vhost for access in table.listed()} == {"v"}
