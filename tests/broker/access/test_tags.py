"""RabbitMQ's tags: which of them include which."""

import pytest

from penstock.broker.access.tags import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER


@pytest.mark.parametrize(
    ("tag", "permitted"),
    [
        ("management", [True, False, False, False]),
        ("monitoring", [True, True, False, False]),
        ("policymaker", [True, False, True, False]),
        ("administrator", [True, True, True, True]),
        ("impersonator", [False, False, False, False]),
    ],
)
def test_a_tag_permits_what_it_permits_in_rabbitmq(tag: str, permitted: list[bool]) -> None:
    assert [
        tag in tags for tags in (MANAGEMENT, MONITORING, POLICYMAKER, ADMINISTRATOR)
    ] == permitted
