import pytest

from penstock.broker.arguments import Overflow
from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.policy import Policies, Policy
from penstock.broker.topology import ClearPolicy, DeclareExchange, DeclareQueue, SetPolicy
from tests.broker.doubles import make_vhost, message


def policy(name: str, pattern: str, apply_to: str = "all", priority: int = 0) -> Policy:
    return Policy(SetPolicy(name, pattern, {"max-length": 1}, apply_to, priority))


def name_of(found: Policy | None) -> str | None:
    return None if found is None else found.name


def test_the_highest_priority_wins_and_names_break_ties() -> None:
    policies = Policies()
    policies.put(policy("b", "q", priority=1))
    policies.put(policy("low", "q", priority=0))
    policies.put(policy("a", "q", priority=1))
    assert name_of(policies.of_queue("q", "classic")) == "a"
    assert policies.remove("a")
    assert name_of(policies.of_queue("q", "classic")) == "b"
    assert not policies.remove("a")


def test_the_pattern_is_searched_in_the_name() -> None:
    policies = Policies()
    policies.put(policy("p", "log"))
    assert name_of(policies.of_queue("my-logs", "classic")) == "p"
    assert policies.of_queue("other", "classic") is None


@pytest.mark.parametrize(
    ("apply_to", "classic", "quorum", "exchange"),
    [
        ("all", True, True, True),
        ("queues", True, True, False),
        ("exchanges", False, False, True),
        ("classic_queues", True, False, False),
        ("quorum_queues", False, True, False),
    ],
)
def test_a_policy_applies_to_kinds_of_objects(
    apply_to: str, classic: bool, quorum: bool, exchange: bool
) -> None:
    policies = Policies()
    policies.put(policy("p", "", apply_to))
    assert (policies.of_queue("n", "classic") is not None) == classic
    assert (policies.of_queue("n", "quorum") is not None) == quorum
    assert (policies.of_exchange("n") is not None) == exchange


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"message-ttl": "5"}, "5 is not a valid message TTL"),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"max-length": True}, "True is not a valid maximum length"),
        ({"max-length-bytes": -5}, "-5 is not a valid maximum length in bytes"),
        ({"overflow": "bogus"}, "bogus is not a valid overflow value"),
        ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
        ({"delivery-limit": -1}, "-1 is not a valid delivery limit"),
        ({"max-priority": 5}, "max-priority are not recognised policy settings"),
        ({}, "no policy provided"),
    ],
)
def test_a_bad_definition_is_refused(definition: dict[str, object], text: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        Policy(SetPolicy("p", "", definition))
    assert refused.value.text == text


def test_keys_without_effect_here_are_kept() -> None:
    definition: dict[str, object] = {
        "ha-mode": "all",
        "queue-mode": "lazy",
        "federation-upstream-set": "all",
        "queue-master-locator": "min-masters",
    }
    assert Policy(SetPolicy("p", "", definition)).definition == definition


def test_a_bad_pattern_or_scope_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="should be a regular expression"):
        policy("p", "(")
    with pytest.raises(PreconditionFailed, match="apply-to 'people' unrecognised"):
        policy("p", "", "people")


def test_setting_and_clearing_reaches_objects_that_exist_and_those_to_come() -> None:
    vhost = make_vhost()
    vhost.apply(DeclareQueue("q", arguments={"x-max-length": 5}), 0)
    vhost.apply(DeclareQueue("other"), 0)
    vhost.apply(DeclareExchange("quick", "direct"), 0)
    for _ in range(4):
        vhost.queues["q"].enqueue(message(), 0)
    definition: dict[str, object] = {
        "max-length": 2,
        "overflow": "reject-publish",
        "alternate-exchange": "amq.fanout",
    }
    generation = vhost.generation
    vhost.apply(SetPolicy("p", "^q", definition), 0)
    assert vhost.generation > generation
    assert vhost.queues["q"].settings.max_length == 2
    assert vhost.queues["other"].settings.max_length == -1
    alternates = {name: exchange.alternate_name for name, exchange in vhost.exchanges.items()}
    assert (alternates["quick"], alternates["amq.direct"]) == ("amq.fanout", None)
    vhost.apply(DeclareQueue("q2"), 0)
    assert vhost.queues["q2"].settings.overflow is Overflow.REJECT_PUBLISH

    vhost.apply(ClearPolicy("p"), 0)
    assert vhost.queues["q"].settings.max_length == 5
    assert vhost.queues["q2"].settings.max_length == -1
    assert vhost.exchanges["quick"].alternate_name is None
    with pytest.raises(NotFound, match="no policy 'p' in vhost '/'"):
        vhost.apply(ClearPolicy("p"), 0)


def test_the_argument_names_the_alternate_exchange_before_the_policy_does() -> None:
    vhost = make_vhost()
    vhost.apply(SetPolicy("p", "", {"alternate-exchange": "amq.fanout"}), 0)
    vhost.apply(DeclareExchange("e", "direct", arguments={"alternate-exchange": "mine"}), 0)
    assert vhost.exchanges["e"].alternate_name == "mine"


@pytest.mark.parametrize("pattern", ["a{99999999999}", "(" * 2000 + ")" * 2000, "a" * 4097])
def test_a_pattern_that_the_engine_cannot_take_is_refused(pattern: str) -> None:
    with pytest.raises(PreconditionFailed):
        Policy(SetPolicy("p", pattern, {"max-length": 1}))
