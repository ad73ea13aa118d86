"""The back-off policy: where to try again, and when."""

import pytest

from penstock.client.reconnect import Attempt, ReconnectPolicy
from penstock.client.redirect import REDIRECTS_MAX
from penstock.client.uri import Address
from penstock.world.entropy import Entropy

FIRST = Address(host="first")
SECOND = Address(host="second")


class FixedEntropy(Entropy):
    def __init__(self, octet: int) -> None:
        self.octet = octet

    def octets(self, count: int) -> bytes:
        return bytes([self.octet]) * count


def delays(policy: ReconnectPolicy, count: int) -> list[int]:
    found = []
    for _ in range(count):
        found.append(policy.next_attempt().delay_milliseconds)
        policy.failed()
    return found


def test_every_address_is_tried_once_before_the_first_wait() -> None:
    policy = ReconnectPolicy([FIRST, SECOND], FixedEntropy(0), 100, 1000)
    attempts = []
    for _ in range(3):
        attempts.append(policy.next_attempt())
        policy.failed()
    assert [attempt.address for attempt in attempts] == [FIRST, SECOND, FIRST]
    assert [attempt.delay_milliseconds for attempt in attempts] == [0, 0, 50]


def test_waits_double_up_to_the_ceiling() -> None:
    policy = ReconnectPolicy([FIRST], FixedEntropy(255), 100, 1000)
    # The largest dice fall just short of the whole ceiling.
    assert delays(policy, 7) == [0, 99, 199, 399, 799, 999, 999]


def test_no_dice_make_a_client_come_back_at_once() -> None:
    policy = ReconnectPolicy([FIRST], FixedEntropy(0), 100, 1000)
    assert delays(policy, 7) == [0, 50, 100, 200, 400, 500, 500]


def test_the_wait_stays_at_the_ceiling_for_ever() -> None:
    policy = ReconnectPolicy([FIRST], FixedEntropy(255), 100, 1000)
    assert delays(policy, 5000)[-1] == 999


def test_after_a_connection_the_same_address_is_tried_first_and_at_once() -> None:
    policy = ReconnectPolicy([FIRST, SECOND], FixedEntropy(0), 100, 1000)
    policy.failed()
    policy.connected()
    attempt = policy.next_attempt()
    assert (attempt.address, attempt.delay_milliseconds) == (SECOND, 0)


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one address"):
        ReconnectPolicy([], FixedEntropy(0))


def test_a_root_that_a_server_names_is_tried_next_without_a_wait() -> None:
    policy = ReconnectPolicy([FIRST], FixedEntropy(0), 100, 1000)
    root = Address(host="root")
    policy.failed()
    policy.redirected(root)
    assert policy.next_attempt() == Attempt(root, 0)
    policy.failed()
    policy.redirected(None)
    assert policy.next_attempt().address == FIRST


def test_servers_that_name_one_another_make_a_client_wait_in_the_end() -> None:
    policy = ReconnectPolicy([FIRST], FixedEntropy(0), 100, 1000)
    waited = []
    for _ in range(REDIRECTS_MAX + 2):
        waited.append(policy.next_attempt().delay_milliseconds)
        policy.failed()
        policy.redirected(SECOND)
    assert waited[:-1] == [0] * (REDIRECTS_MAX + 1)
    assert waited[-1] > 0
