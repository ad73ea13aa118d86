"""Damaged conversations never raise, never grow and never hang (see tests.wire.amqp10.fuzz)."""

from random import Random

import pytest

from penstock import builds
from penstock.wire.amqp10.states import Role
from tests.wire.amqp10 import fuzz
from tests.wire.damage import mutate

SEEDS = range(1, 9)
# 200,000 inputs over both builds, within the time of the suite: the compiled build is faster.
INPUTS_PER_SEED = 20_000 if builds.build_mode() == "compiled" else 7_500


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_conversations_do_no_harm(seed: int) -> None:
    fuzz.fuzz(seed, INPUTS_PER_SEED)


def test_the_undamaged_conversation_is_heard() -> None:
    for recorded in fuzz.record():
        machine = fuzz.machine_for(recorded)
        # With this seed nothing is ended in the middle.
        fuzz.run(Random(2), machine, recorded.said)
        deliveries = len(machine.calls.named("delivery"))
        if recorded.listener_role is Role.SERVER:
            assert machine.calls.named("connection_ended") == [(None,)]
            assert deliveries == 9
        else:
            assert deliveries == 5


def test_the_same_numbers_make_the_same_input() -> None:
    first, second = fuzz.record()
    for number in range(20):
        one = mutate(Random(number), first, second.said)
        assert one == mutate(Random(number), first, second.said)
