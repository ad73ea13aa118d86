"""Parsing definitions changes nothing: it says what an import would do."""

from penstock.broker.access.new_password import NewPasswords
from penstock.broker.definitions.parsing import Definitions, parse
from penstock.broker.topology import SetPermissions
from tests.broker.definitions.definition_examples import RABBITMQ
from tests.broker.doubles import CountingEntropy


def test_commands_come_in_an_order_that_always_applies() -> None:
    found: Definitions = parse(RABBITMQ, None, NewPasswords(CountingEntropy()))
    kinds = [type(step.command).__name__ for step in found.steps]
    assert list(dict.fromkeys(kinds)) == [
        "AddVhost",
        "PutUser",
        "SetUserLimits",
        "SetPermissions",
        "SetTopicPermissions",
        "SetGlobalParameter",
        "SetPolicy",
        "DeclareExchange",
        "DeclareQueue",
        "BindQueue",
        "BindExchange",
        "SetOperatorPolicy",
        "SetVhostLimits",
    ]
    assert found.mistakes == []
    granted = [step.command for step in found.steps if isinstance(step.command, SetPermissions)]
    assert SetPermissions("ada", "orders", "", "^orders$", ".*") in granted
