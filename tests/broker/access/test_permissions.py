import pytest

from penstock.broker.access.permissions import (
    ANSWERS_MAX,
    Access,
    AccessTable,
    Permission,
    ResourceKind,
    compiled_pattern,
    needs,
)
from penstock.broker.errors import AccessRefused, PreconditionFailed
from penstock.broker.topology import (
    BindExchange,
    BindQueue,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    SetPermissions,
    SetPolicy,
    UnbindExchange,
    UnbindQueue,
    VhostCommand,
)

QUEUE, EXCHANGE = ResourceKind.QUEUE, ResourceKind.EXCHANGE


def access(configure: str = "", write: str = "", read: str = "") -> Access:
    granted = Access("u", "/")
    granted.grant(configure, write, read)
    return granted


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (DeclareQueue("q"), ["configure queue q"]),
        (DeclareQueue("q", passive=True), []),
        (
            DeclareQueue("q", arguments={"x-dead-letter-exchange": "d"}),
            ["configure queue q", "read queue q", "write exchange d"],
        ),
        (DeclareExchange("e", "direct"), ["configure exchange e"]),
        (DeclareExchange("e", "direct", passive=True), []),
        (
            DeclareExchange("e", "direct", arguments={"alternate-exchange": "a"}),
            ["configure exchange e", "read exchange e", "write exchange a"],
        ),
        (DeleteQueue("q"), ["configure queue q"]),
        (DeleteExchange("e"), ["configure exchange e"]),
        (PurgeQueue("q"), ["read queue q"]),
        (BindQueue("q", "e"), ["write queue q", "read exchange e"]),
        (UnbindQueue("q", "e"), ["write queue q", "read exchange e"]),
        (BindExchange("d", "s"), ["write exchange d", "read exchange s"]),
        (UnbindExchange("d", "s"), ["write exchange d", "read exchange s"]),
        (SetPolicy("p", "", {}), []),
    ],
)
def test_what_each_command_needs(command: VhostCommand, expected: list[str]) -> None:
    needed = [
        f"{need.permission.value} {need.kind.value} {need.name}" for need in needs(command, True)
    ]
    assert needed == expected


def test_declaring_again_does_not_ask_for_further_exchanges() -> None:
    command = DeclareQueue("q", arguments={"x-dead-letter-exchange": "d"})
    assert len(needs(command, False)) == 1


def test_a_pattern_is_searched_and_an_empty_one_allows_nothing() -> None:
    granted = access(configure="log", write="^a$")
    assert granted.may(Permission.CONFIGURE, QUEUE, "my-logs")
    assert not granted.may(Permission.WRITE, QUEUE, "ab")
    assert granted.may(Permission.WRITE, QUEUE, "a")
    assert not granted.may(Permission.READ, QUEUE, "a")


def test_a_refusal_names_object_and_user() -> None:
    with pytest.raises(AccessRefused) as refused:
        access().check_command(DeclareQueue("q"), creates=True)
    assert refused.value.text == "access to queue 'q' in vhost '/' refused for user 'u'"


def test_the_default_exchange_has_a_name_of_its_own() -> None:
    assert access(write="^amq\\.default$").may(Permission.WRITE, EXCHANGE, "")
    with pytest.raises(AccessRefused, match=r"access to exchange 'amq\.default' in vhost '/'"):
        access(write="^$").check(Permission.WRITE, EXCHANGE, "")


def test_answers_are_remembered_up_to_a_limit_and_stay_right() -> None:
    granted = access(write="7")
    for number in range(ANSWERS_MAX * 2 + 10):
        expected = "7" in str(number)
        assert granted.may(Permission.WRITE, QUEUE, str(number)) == expected
        assert granted.may(Permission.WRITE, QUEUE, str(number)) == expected
    assert sum(len(answers) for answers in granted._answers.values()) <= ANSWERS_MAX


def test_a_change_reaches_those_who_hold_the_access() -> None:
    table = AccessTable()
    table.grant(SetPermissions("u", "/", "", "", ".*"))
    held = table.find("u", "/")
    assert held is not None
    assert held.may(Permission.READ, QUEUE, "q")
    table.grant(SetPermissions("u", "/", "", "", "^x"))
    assert not held.may(Permission.READ, QUEUE, "q")
    assert held.may(Permission.READ, QUEUE, "x")
    table.revoke("u", "/")
    assert not held.may(Permission.READ, QUEUE, "x")
    assert table.find("u", "/") is None


def test_a_bad_pattern_is_refused_and_changes_nothing() -> None:
    table = AccessTable()
    table.grant(SetPermissions("u", "/", "", "", ".*"))
    with pytest.raises(PreconditionFailed, match="is not a valid regular expression"):
        table.grant(SetPermissions("u", "/", "(", "", ""))
    held = table.find("u", "/")
    assert held is not None
    assert held.may(Permission.READ, QUEUE, "q")


@pytest.mark.parametrize("pattern", ["a{99999999999}", "(" * 1500 + ")" * 1500])
def test_a_pattern_that_the_engine_cannot_take_is_refused(pattern: str) -> None:
    with pytest.raises(PreconditionFailed):
        compiled_pattern(pattern)
