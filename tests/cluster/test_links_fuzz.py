"""Damaged conversations between servers do no harm (see tests.cluster.fuzz)."""

from random import Random

import pytest

from penstock.wire.amqp091.states import Role
from tests.cluster.fuzz import Fuzzer, fuzz

SEEDS = range(1, 5)
INPUTS_PER_SEED = 1_500


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_links_do_no_harm(seed: int) -> None:
    fuzz(seed, INPUTS_PER_SEED)


@pytest.mark.parametrize(("role", "expected"), [(Role.SERVER, 6), (Role.CLIENT, 3)])
def test_the_undamaged_link_passes_everything_on(role: Role, expected: int) -> None:
    fuzzer = Fuzzer()
    [recorded] = [one for one in fuzzer.recordings if one.listener_role is role]
    for seed in range(3):
        fuzzer.hear(Random(seed), role, recorded.said)
        received = [call for call in fuzzer.last_heard if call[0] == "received"]
        assert len(received) == expected
