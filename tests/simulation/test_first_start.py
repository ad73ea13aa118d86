"""A store that was never flushed is a new store, however often the power goes."""

import pytest

from penstock.simulation.clock import VirtualClock
from penstock.simulation.durable_host import DurableHost
from penstock.simulation.history import History
from penstock.simulation.plans import StoragePlan
from penstock.simulation.scenarios import LITTLE
from penstock.wire.amqp091.limits import Limits
from tests.simulation.doubles import dice_of

SEEDS = 60
LIVES = 6


@pytest.mark.parametrize("begin", range(0, SEEDS, 20))
def test_a_node_whose_power_goes_before_its_first_flush_always_starts(begin: int) -> None:
    for seed in range(begin, begin + 20):
        clock = VirtualClock()
        dice = dice_of(seed)
        host = DurableHost(
            "node", clock, dice.fork("host"), History(clock), Limits(), StoragePlan(LITTLE)
        )
        # No crash but ours.
        host.is_calm = True
        for _ in range(LIVES):
            clock.run(dice.between(0, 4_000))
            host.lose_power()
            while not host.is_up:
                clock.run(100)
        clock.run(1_000_000)
        assert host.node.is_all_durable()
        assert "/" in host.node.state.vhosts
