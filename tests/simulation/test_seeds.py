"""Many seeds of every scenario, and every rare path of each reached at least once.

A seed that ever failed goes into seeds.txt with a word about what it found, and is played first.
"""

from collections import Counter
from pathlib import Path

import pytest

from penstock.simulation import faults
from penstock.simulation.run import Verdict, run_seed
from penstock.simulation.scenarios import SCENARIOS

SEEDS_PER_SCENARIO = 50

EVERYWHERE = {
    *faults.KINDS,
    "a client notices a cut by missed heartbeats",
    "a node notices a cut by missed heartbeats",
    "a connection is refused",
    "a publisher is blocked",
    "a publisher closes its channel",
    "a publisher crashes",
    "a channel error",
    "a message is returned",
    "one confirm for many",
    "a redelivery",
    "a get finds a message",
    "one acknowledgement for many",
    "a consumer requeues",
    "a consumer rejects",
    "a consumer recovers",
    "a consumer cancels",
    "a consumer closes its channel",
    "a consumer crashes",
}
IN_DOUBT = {"a line is lost during a confirm", "a publish in doubt is repeated"}
SOMETIMES = {
    "plain": IN_DOUBT,
    "stormy": IN_DOUBT,
    "alarms": IN_DOUBT | {"a reset waits for a paused reader", "a reset is noticed by writing"},
    "limited": IN_DOUBT
    | {
        "a publish is refused",
        "a refused publish is tried again",
        "a dead letter: expired",
        "a dead letter: maxlen",
        "a dead letter: rejected",
    },
    "heavy": {
        "a body over several frames",
        "a consumer stops reading",
        "a full receive buffer stops the sender",
        "a publisher's write buffer is full",
        "the node's write buffer is full",
    },
    "transactions": {"a commit is in doubt", "a transaction is rolled back"},
}


def failed_seeds() -> list[tuple[str, int]]:
    lines = Path(__file__).with_name("seeds.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split("#")[0].split() for line in lines]
    return [(row[0], int(row[1])) for row in rows if row]


def check(verdict: Verdict) -> None:
    again = f"penstock simulate --scenario {verdict.scenario} --start {verdict.seed} --seeds 1"
    assert verdict.is_good, "\n".join([*verdict.tail, *verdict.violations, again])


@pytest.mark.parametrize(("scenario", "seed"), failed_seeds())
def test_a_seed_that_once_failed_is_good(scenario: str, seed: int) -> None:
    check(run_seed(seed, scenario))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_seed_is_good_and_every_rare_path_is_reached(scenario: str) -> None:
    sightings: Counter[str] = Counter()
    for seed in range(SEEDS_PER_SCENARIO):
        verdict = run_seed(seed, scenario)
        check(verdict)
        sightings.update(verdict.sightings)
    expected = EVERYWHERE | SOMETIMES.get(scenario, set())
    assert expected - set(sightings) == set()
