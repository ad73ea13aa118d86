import pytest

from penstock.broker.definitions.exporting import export
from penstock.broker.definitions.parsing import DefinitionsRefused
from penstock.broker.json_values import DEPTH_MAX
from tests.broker.definitions.definition_examples import (
    RABBITMQ,
    apply,
    binding,
    exchange,
    make_state,
    mistakes_of,
    policy,
    queue,
)

NESTED: object = 1
for _ in range(DEPTH_MAX):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("section", "row", "mistake"),
    [
        ("queues", "q", "queues[0]: must be an object, not a string"),
        ("queues", {**queue("q"), "name": 7}, "queues[0].name: must be a string, not the number 7"),
        ("queues", queue(""), "queues[0].name: must not be empty"),
        ("queues", queue("q" * 256), "queues[0].name: is longer than 255 bytes"),
        ("queues", queue("\ud800"), "queues[0].name: is not a valid Unicode string"),
        ("queues", queue("q", vhost="x"), "queues[0]: no vhost 'x'"),
        ("queues", {"vhost": "/", "name": "q"}, "queues[0].durable: is missing (true or false)"),
        (
            "queues",
            queue("q", durable="yes"),
            "queues[0].durable: must be true or false, not a string",
        ),
        (
            "queues",
            queue("q", arguments=[1]),
            "queues[0].arguments: must be an object, not a list",
        ),
        (
            "queues",
            queue("q", arguments={"x-message-ttl": -1}),
            (
                "queues[0].arguments.x-message-ttl: invalid arg 'x-message-ttl' for queue 'q' in "
                "vhost '/': {value_negative,-1}"
            ),
        ),
        (
            "queues",
            queue("q", arguments={"x-dead-letter-exchange": 1}),
            (
                "queues[0].arguments.x-dead-letter-exchange: invalid type 'signedint' for arg "
                "'x-dead-letter-exchange' in queue 'q' in vhost '/'"
            ),
        ),
        (
            "queues",
            queue("q", arguments={"x": 2**63}),
            "queues[0].arguments.x: needs more than 64 bits",
        ),
        (
            "queues",
            queue("q", arguments={"x": NESTED}),
            f"queues[0].arguments.x: is nested deeper than {DEPTH_MAX} levels",
        ),
        (
            "queues",
            queue("q", durable=False, arguments={"x-queue-type": "quorum"}),
            "queues[0]: invalid property 'non-durable' for queue 'q' in vhost '/'",
        ),
        (
            "queues",
            queue("amq.q"),
            "queues[0]: queue name 'amq.q' contains reserved prefix 'amq.*'",
        ),
        ("exchanges", exchange("e", type="round"), "exchanges[0]: unknown exchange type 'round'"),
        (
            "exchanges",
            exchange("amq.e"),
            "exchanges[0]: exchange name 'amq.e' contains reserved prefix 'amq.*'",
        ),
        (
            "exchanges",
            exchange("e", arguments={"alternate-exchange": 1}),
            (
                "exchanges[0].arguments.alternate-exchange: invalid type 'signedint' for arg "
                "'alternate-exchange' in exchange 'e' in vhost '/'"
            ),
        ),
        (
            "bindings",
            binding("amq.direct", "q", destination_type="topic"),
            "bindings[0].destination_type: must be 'queue' or 'exchange', not 'topic'",
        ),
        (
            "bindings",
            binding("amq.direct", "q", routing_key="k" * 256),
            "bindings[0].routing_key: is longer than 255 bytes",
        ),
        (
            "policies",
            policy(pattern="("),
            (
                "policies[0].pattern: '(' is not a valid regular expression: missing ), "
                "unterminated "
                "subpattern at position 0"
            ),
        ),
        (
            "policies",
            policy(definition={"message-ttl": "x"}),
            "policies[0].definition.message-ttl: x is not a valid message TTL",
        ),
        (
            "policies",
            policy(**{"apply-to": "all of it"}),
            (
                "policies[0]: apply-to 'all of it' unrecognised; should be 'queues', 'exchanges' or "
                "'all'"
            ),
        ),
        ("policies", policy(definition={}), "policies[0]: no policy provided"),
        (
            "policies",
            policy(priority=1.5),
            "policies[0].priority: must be an integer, not the number 1.5",
        ),
        ("vhosts", {"name": ""}, "vhosts[0]: a vhost name must have 1 to 255 bytes"),
        ("vhosts", {}, "vhosts[0].name: is missing (a string)"),
        (
            "permissions",
            {"user": "nobody", "vhost": "/", "configure": "", "write": "", "read": ""},
            "permissions[0]: no user 'nobody'",
        ),
        (
            "permissions",
            {"user": "guest", "vhost": "/", "configure": "[[:alpha:]]", "write": "", "read": ""},
            (
                "permissions[0].configure: character classes such as [:alpha:] are not supported; "
                "write "
                "[a-zA-Z]"
            ),
        ),
        (
            "parameters",
            {"vhost": "/", "component": "vhost-limits", "value": {"max-queues": "5"}},
            "parameters[0].value.max-queues: must be an integer, not a string",
        ),
        (
            "users",
            {"name": "u", "tags": "", "password_hash": "x"},
            (
                "users[0].password_hash: the password hash is not base64 of 4 bytes of salt and 32 "
                "of hash"
            ),
        ),
        (
            "users",
            {"name": "u", "password_hash": "eA==", "hashing_algorithm": "penstock_argon2id"},
            "users[0].password_hash: the password hash is not an argon2id hash",
        ),
        (
            "users",
            {
                "name": "u",
                "password_hash": "eA==",
                "hashing_algorithm": "rabbit_password_hashing_md5",
            },
            (
                "users[0].hashing_algorithm: 'rabbit_password_hashing_md5' is not supported; "
                "supported are "
                "rabbit_password_hashing_sha256, rabbit_password_hashing_sha512 and penstock_argon2id"
            ),
        ),
        (
            "users",
            {"name": "u", "tags": [1]},
            "users[0].tags: must be a list of strings, or a comma-separated string",
        ),
        (
            "users",
            {"name": "u", "password": ""},
            "users[0].password: a password must have 1 to 1024 bytes",
        ),
        ("users", {"name": "\udcff"}, "users[0].name: is empty or not a valid Unicode string"),
    ],
)
def test_a_mistake_is_named_with_its_path(section: str, row: object, mistake: str) -> None:
    assert mistakes_of({section: [row]}) == [mistake]


def test_definitions_are_an_object_of_lists() -> None:
    assert "must be a JSON object" in mistakes_of([])[0]
    assert mistakes_of({"queues": {}}) == ["queues: must be a list, not an object"]


def test_all_mistakes_are_told_and_those_that_follow_from_others_are_not() -> None:
    found = mistakes_of(
        {
            "vhosts": [{"name": "v" * 256}],
            "users": [{"name": "u", "tags": 1}],
            "permissions": [
                {"user": "u", "vhost": "/", "configure": "", "write": "", "read": ""},
                {"user": "guest", "vhost": "v" * 256, "configure": "", "write": "", "read": ""},
            ],
            "exchanges": [exchange("e", durable=1), exchange("f", type="x")],
            "queues": [queue("q", arguments={"x-expires": 0}), queue("r", vhost="v" * 256)],
            "bindings": [binding("e", "q"), binding("f", "f", destination_type="exchange")],
        }
    )
    assert [mistake.split(": ")[0] for mistake in found] == [
        "vhosts[0].name",
        "users[0].tags",
        "permissions[1].vhost",
        "exchanges[0].durable",
        "queues[1].vhost",
        "exchanges[1]",
        "queues[0].arguments.x-expires",
    ]


def test_a_thousand_mistakes_are_counted_and_some_shown() -> None:
    with pytest.raises(DefinitionsRefused) as refused:
        apply(make_state(), {"queues": [1] * 1000})
    assert len(refused.value.mistakes) == 1000
    lines = str(refused.value).splitlines()
    assert lines[0] == "the definitions have 1000 errors:"
    assert lines[-1] == "  and 900 more"


def test_two_rows_of_one_queue_must_agree() -> None:
    assert apply(make_state(), {"queues": [queue("q"), queue("q")]}) == []
    found = mistakes_of({"queues": [queue("q"), queue("q", durable=False)]})
    assert found == [
        (
            "queues[1].durable: inequivalent arg 'durable' for queue 'q' in vhost '/': "
            "received 'false' but current is 'true'"
        )
    ]


def test_a_refused_import_changes_nothing() -> None:
    state = make_state()
    before = export(state)
    generation = state.vhost("/").generation
    assert mistakes_of({**RABBITMQ, "queues": [*RABBITMQ["queues"], queue("amq.q")]}, state)
    assert export(state) == before
    assert state.vhost("/").generation == generation
