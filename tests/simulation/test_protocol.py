"""The protocol of a cluster over a toy state: many seeds, each rule missed when it is off.

Each run has trouble of all kinds, then heals with a minority dead, and must confirm again, refill its
in-sync set and end with equal replicas.
"""

from collections import Counter
from dataclasses import fields

import pytest

from penstock.cluster.rules import ElectionRules
from penstock.ha.rules import HaRules
from penstock.simulation.protocol.aims import AIM_REACHED, AIMS
from penstock.simulation.run import run_protocol_seed

# 2,000 seeds in all; the first lot also has to see everything that is rare.
LOT = 100
LOTS = 20
FIRST_LOTS = 6

RARE = (
    "JOIN repeated in an epoch",
    "NACK",
    "RESUME",
    "SYNC continued",
    "SYNC with missing messages",
    "control message refused",
    "crash in the middle of a SYNC",
    "cut in one direction",
    "disk lost",
    "disk of a root hangs",
    "disk of a root hangs while all else is well",
    "disk replaced",
    "dropped in the middle of a SYNC",
    "equal replica",
    "guarded before its record",
    "hand-over",
    "in-doubt operation survived",
    "in-doubt operation vanished",
    "in-sync set grown",
    "in-sync set shrunk",
    "in-sync set swapped",
    "lease expired",
    "missing message cancelled",
    "moved",
    "operation during a SYNC",
    "operation of several changes",
    "overflow of a line",
    "pause",
    "power loss of all servers",
    "queue deleted",
    "root crashed before its first record",
    "root deposed with unacknowledged operations",
    "root discards what was staged",
    "root lost with a pending record",
    "server added",
    "server removed",
    "stale answer to a JOIN",
    "step-down",
    "tick of housekeeping only",
)

# A rule that is switched off, the seed that finds it, and what breaks. All rules are here.
FOUND: list[tuple[str, int, str]] = [
    ("ha.all_acknowledge", 12, "P2"),
    ("ha.own_flush", 3, "P1"),
    ("ha.durable", 3, "P1"),
    ("ha.present_epoch", 4, "P1"),
    ("ha.present_join", 648, "I4"),
    ("ha.stage", 1, "I4"),
    ("ha.cancel", 10, "P6"),
    ("ha.whole", 1, "P1"),
    ("ha.erase", 1, "I4"),
    ("cluster.eligibility", 7, "P6"),
    ("cluster.one_vote", 15, "AssertionError"),
    ("cluster.majority", 6, "I1"),
    ("cluster.both_sets", 30, "P1"),
    ("cluster.caught_up", 1, "P1"),
    ("cluster.progress", 5, "R15"),
    ("cluster.never_below_half", 262, "P6"),
    ("cluster.lease", 311, "P2"),
    ("cluster.durability", 30, "P1"),
    ("cluster.store_ids", 109, "P1"),
    ("deliver_committed", 15, "R16"),
    ("flag_inherited", 2, "P3"),
]

# The same with faults that are aimed at what the rule is about.
FOUND_BY_AIM: list[tuple[str, str, int, str]] = [
    ("late-record", "cluster.fencing", 6, "P1"),
    ("half-written-record", "cluster.barrier", 0, "P1"),
    ("returned-disk", "cluster.both_majorities", 0, "P1"),
    ("slower-backup", "cluster.guard_early", 7, "P6"),
    ("interrupted-sync", "ha.stage", 0, "I4"),
]
AIMED_SEEDS = 20


def run_lot(first: int, count: int) -> dict[str, int]:
    sightings: dict[str, int] = {}
    for seed in range(first, first + count):
        verdict = run_protocol_seed(seed)
        assert verdict.is_good, (seed, verdict.violations, verdict.tail)
        for what, number in verdict.sightings.items():
            sightings[what] = sightings.get(what, 0) + number
    return sightings


def test_everything_that_is_rare_occurs_and_no_promise_is_broken() -> None:
    sightings = run_lot(0, FIRST_LOTS * LOT)
    assert [what for what in RARE if not sightings.get(what)] == []


@pytest.mark.parametrize("lot", range(FIRST_LOTS, LOTS))
def test_no_promise_is_broken(lot: int) -> None:
    run_lot(lot * LOT, LOT)


@pytest.mark.parametrize(("rule", "seed", "broken"), FOUND)
def test_a_rule_that_is_switched_off_is_missed(rule: str, seed: int, broken: str) -> None:
    verdict = run_protocol_seed(seed, off=rule)
    assert any(broken in violation for violation in verdict.violations), verdict.violations
    assert run_protocol_seed(seed).is_good


@pytest.mark.parametrize(("aim", "rule", "seed", "broken"), FOUND_BY_AIM)
def test_a_rule_that_is_switched_off_is_missed_by_faults_aimed_at_it(
    aim: str, rule: str, seed: int, broken: str
) -> None:
    verdict = run_protocol_seed(seed, off=rule, aim=aim)
    assert any(broken in violation for violation in verdict.violations), verdict.violations


@pytest.mark.parametrize("aim", AIMS)
def test_aimed_faults_are_survived(aim: str) -> None:
    sightings: Counter[str] = Counter()
    for seed in range(AIMED_SEEDS):
        verdict = run_protocol_seed(seed, aim=aim)
        assert verdict.is_good, (seed, verdict.violations, verdict.tail)
        sightings.update(verdict.sightings)
    assert sightings[AIM_REACHED] > 0
    if aim == "interrupted-sync":
        assert sightings["campaign in the middle of a SYNC"] > 0


def test_every_rule_is_switched_off_by_some_test() -> None:
    rules = [f"ha.{name}" for name in dir(HaRules()) if not name.startswith("_")]
    rules += [f"cluster.{field.name}" for field in fields(ElectionRules)]
    tried = {rule for rule, _, _ in FOUND} | {rule for _, rule, _, _ in FOUND_BY_AIM}
    assert [rule for rule in rules if rule not in tried] == []


def test_the_same_seed_gives_the_same_history() -> None:
    assert run_protocol_seed(11).digest == run_protocol_seed(11).digest
    assert run_protocol_seed(11).digest != run_protocol_seed(12).digest
