"""Whole nodes as a cluster: every seed is good, every rare path is reached, every rule is needed."""

import dataclasses
import functools
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from penstock.builds import build_mode
from penstock.cluster.rules import ElectionRules
from penstock.ha.rules import HaRules
from penstock.simulation import cluster_faults, faults, retention_book, role_sightings
from penstock.simulation.cluster_host import ClusterHost
from penstock.simulation.cluster_scenarios import CLUSTER_SCENARIOS
from penstock.simulation.run import Verdict, run_cluster_seed, run_seed
from penstock.simulation.shrink import shrunk
from tests.simulation import planted_cluster, planted_retention
from tests.simulation.test_seeds import check

SEEDS_PER_SCENARIO = 40
# The build without a compiler runs a sample.
PURE_SEEDS = 6
# Variants of others, in which nothing but what is special to them must be reached.
VARIANTS = ("cluster-alarms", "cluster-amqp10-limits", "cluster-heavy", "cluster-moving")
VARIANT_SEEDS = 8
VARIANT_PURE_SEEDS = 3
# Some paths need several faults at once. Where the seeds above did not reach one, further ones must.
RARE_SEEDS_MAX = 120
MORE_SEEDS = range(80)

ALWAYS = {
    faults.KILL,
    faults.POWER,
    cluster_faults.ROOT_DOWN,
    cluster_faults.SEVERAL,
    cluster_faults.ALL,
    cluster_faults.DIVIDE,
    cluster_faults.DIVIDE_ONE_WAY,
    cluster_faults.PAUSE,
    cluster_faults.PAUSE_ROOT,
    cluster_faults.HANG,
    cluster_faults.LOST_DISK,
    cluster_faults.HAND_OVER,
    cluster_faults.REPLACE,
    role_sightings.UNACKNOWLEDGED,
    role_sightings.LEASE,
    role_sightings.SHRINK,
    role_sightings.GROW,
    role_sightings.JOIN_AGAIN,
    role_sightings.RELEASED,
    role_sightings.SYNCING,
    "a client is sent to the root",
    "a crash comes before a flush ends",
    "a crash comes inside a SYNC",
    "a publish in doubt survives",
    "a publish in doubt vanishes",
    "a redelivery",
    "a root goes down with a record that is not committed",
    "an acknowledgement in doubt is undone",
    "replicas are equal in the end",
}
SOMETIMES = {
    "cluster": {
        cluster_faults.ROOT_ROLE,
        faults.FAILED_FLUSH,
        role_sightings.SWAP,
        "a NACK is sent",
        "a commit is in doubt",
        "a transaction is rolled back",
    },
    "cluster5": {"acknowledgements are committed"},
    "cluster-members": {
        cluster_faults.ADD,
        cluster_faults.REMOVE,
        role_sightings.MEMBER_IN,
        role_sightings.MEMBER_OUT,
    },
    "cluster-amqp10": {
        "a delivery in doubt is sent again",
        "a delivery is resumed",
        "a delivery is resumed by a receiver",
        "a held delivery is not known any more",
        "a transaction is committed",
        "a transaction is rolled back",
        "a commit is in doubt",
        "an acknowledgement is known to be done",
        "an outcome is heard from the map",
    },
    "cluster-alarms": {faults.ALARM},
    "cluster-amqp10-limits": {
        "a publish is refused",
        "a receiver stops reading",
        "a refused publish is tried again",
    },
    "cluster-heavy": {
        "a consumer stops reading",
        "a full receive buffer stops the sender",
        "the node's write buffer is full",
    },
    "cluster-moving": {
        faults.FULL_DISK,
        "a move is in doubt",
        "a move is rolled back",
        "a node stops: no space left on device",
        "messages are moved",
    },
    "cluster-limits": {
        "a dead letter: expired",
        "a dead letter: maxlen",
        "a dead letter: rejected",
        "a publish is refused",
    },
    "cluster-jobs": {
        "a batch turns out to be committed",
        "a job does not know what became of a lease",
        "a lease has expired",
        "a lease is given back",
        "a lease is settled",
        "a move ends with its node",
        "a move is done",
        "a sink waits for room",
        "an administrator does not know what became of a change",
        "the answer is lost while staging",
        "the answer to a job is lost",
    },
    "cluster-streams": {
        "a numbered publish is repeated",
        "a reader begins anew: cancel",
        "a reader begins anew: give back",
        "a reader crashes",
        "a reader reads again",
    },
    "cluster-retention": {
        retention_book.GIVES_UP,
        retention_book.SKIPPED,
        retention_book.UNDONE,
        "a numbered publish is repeated",
        "a reader reads again",
    },
    "cluster-delayed": {"a consumer without acknowledgements gets a message"},
}

# Other processes and builds are compared by all of them, with half of the usual time for faults.
COMPARED = tuple(CLUSTER_SCENARIOS)
COMPARED_SECONDS = 4
DIGESTS = """
from penstock.builds import build_mode
from penstock.simulation.run import run_seed
print(build_mode(), *[run_seed(7, scenario, {seconds}).digest for scenario in {scenarios}])
"""

# A rule that is switched off, a seed of scenario cluster that detected it, and what is complained of.
# Any change of a node changes its histories, so others are tried after it.
OFF = [
    ("all_acknowledge", 0, r"\(P1\)"),
    ("durable", 8, r"\(P1\)"),
    ("present_epoch", 0, r"\(P1\)"),
    ("whole", 0, r"\(P1\)"),
    ("erase", 0, r"\(P2\)"),
    ("own_flush", 19, r"\(P1\)"),
    # A resync that is applied in place; what it defines is of a later position.
    ("stage", 10, r"\(P5\)"),
]
ELECTION_OFF = [
    ("eligibility", 5, r"\(P1\)"),
    ("majority", 1, r"are roots of epoch"),
    ("caught_up", 31, r"\(P1\)"),
    ("lease", 10, r"\(R14\)"),
]
PLANTED = [
    (planted_cluster.ForgettingFlagHost, "cluster", 0, r"without the flag"),
    (planted_cluster.HastyGuardHost, "cluster", 0, r"\(R16\)"),
    (planted_cluster.CancellingGuardHost, "cluster", 23, r"\(P1\)"),
    (planted_cluster.SleepwalkingHost, "cluster", 1, r"\(R14\)"),
    (planted_cluster.EpochlessHost, "cluster", 0, r"gave a position of epoch"),
    (planted_cluster.ForgetfulBackupHost, "cluster", 2, r"\(P5\)"),
    # It may be deposed before it is active, so that it is found only by who looks at once.
    (
        planted_cluster.ShortStreamHost,
        "cluster-streams",
        0,
        r"elected for epoch \d+: confirmed .* is in no stream",
    ),
    # A move is not whole when the stream lacks its part.
    (planted_cluster.ShortStreamHost, "cluster-moving", 0, r"receipts and moves differ"),
    (planted_cluster.AlarmedHost, "cluster-alarms", 0, r"never received all its confirms"),
    (
        planted_cluster.ForgetfulHeirHost,
        "cluster-limits",
        6,
        r"root \w of epoch \d+: at .* it lacks \[.+\] and has \[\] \(P5\)",
    ),
    (
        planted_cluster.HastyFilesHost,
        "cluster-streams",
        0,
        r"was read at \d+ of .*, but is not there",
    ),
    (
        planted_retention.RetainingBackupHost,
        "cluster-retention",
        0,
        r"at \(\d+, \d+\) it lacks .*first_offset=\d+.* \(P5\)",
    ),
    (planted_retention.GenerousHost, "cluster-retention", 0, r"which is within its limits"),
    (
        planted_retention.LeapingReadersHost,
        "cluster-retention",
        0,
        r"got offset \d+ in place of",
    ),
    (planted_retention.RestoringHost, "cluster-retention", 0, r"begins at \d+ again"),
    # The node itself asserts that a backup drops nothing.
    (planted_cluster.TimedBackupHost, "cluster-limits", 0, r"what is dropped has consequences"),
]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("scenario", CLUSTER_SCENARIOS)
def test_every_seed_is_good_and_every_rare_path_is_reached(scenario: str) -> None:
    sightings: Counter[str] = Counter()
    is_sample = build_mode() != "compiled"
    is_variant = scenario in VARIANTS
    count = VARIANT_SEEDS if is_variant else SEEDS_PER_SCENARIO
    if is_sample:
        count = VARIANT_PURE_SEEDS if is_variant else PURE_SEEDS
    for seed in range(count):
        look_at(seed, scenario, sightings)
    if is_sample:
        return
    always = set() if is_variant else ALWAYS
    wanted = always | SOMETIMES.get(scenario, set())
    while not wanted <= set(sightings) and count < RARE_SEEDS_MAX:
        look_at(count, scenario, sightings)
        count += 1
    assert wanted - set(sightings) == set()


def look_at(seed: int, scenario: str, sightings: Counter[str]) -> None:
    verdict = run_seed(seed, scenario)
    check(verdict)
    sightings.update(verdict.sightings)


def test_the_same_seed_gives_the_same_history_twice() -> None:
    once = run_seed(3, "cluster")
    again = run_seed(3, "cluster")
    assert once.lines == again.lines
    assert len(once.lines) > 1000


@functools.cache
def digests_here() -> list[str]:
    return [run_seed(7, scenario, COMPARED_SECONDS).digest for scenario in COMPARED]


def digests_elsewhere(**environment: str) -> list[str]:
    output = subprocess.check_output(
        [sys.executable, "-P", "-c", DIGESTS.format(scenarios=COMPARED, seconds=COMPARED_SECONDS)],
        env={**os.environ, **environment},
        text=True,
    )
    return output.split()


def test_another_process_with_other_hashes_gives_the_same_history() -> None:
    assert digests_elsewhere(PYTHONHASHSEED="4711") == [build_mode(), *digests_here()]


def test_the_pure_build_gives_the_same_history_as_the_compiled_one() -> None:
    if build_mode() != "compiled":
        pytest.skip("only the pure build is here; the compiled suite compares the two")
    elsewhere = digests_elsewhere(PENSTOCK_PURE="1", PENSTOCK_REQUIRE_COMPILED="0")
    assert elsewhere == ["pure", *digests_here()]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("rule", "seed", "complaint"), OFF)
def test_a_rule_of_replication_that_is_switched_off_is_detected(
    rule: str, seed: int, complaint: str
) -> None:
    rules = HaRules()
    setattr(rules, rule, False)
    found: list[str] = []
    for tried in (seed, *MORE_SEEDS):
        found += run_cluster_seed(tried, "cluster", ha_rules=rules).violations
        if any(re.search(complaint, violation) for violation in found):
            return
    pytest.fail(f"not detected: {found[:5]}")


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("rule", "seed", "complaint"), ELECTION_OFF)
def test_a_rule_of_the_election_that_is_switched_off_is_detected(
    rule: str, seed: int, complaint: str
) -> None:
    rules = dataclasses.replace(ElectionRules(), **{rule: False})
    found: list[str] = []
    for tried in (seed, *MORE_SEEDS):
        found += run_cluster_seed(tried, "cluster", election_rules=rules).violations
        if any(re.search(complaint, violation) for violation in found):
            return
    pytest.fail(f"not detected: {found[:5]}")


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("host", "scenario", "seed", "complaint"), PLANTED)
def test_a_planted_defect_is_found(
    host: type[ClusterHost], scenario: str, seed: int, complaint: str
) -> None:
    found: list[str] = []
    for tried in (seed, *MORE_SEEDS):
        found += run_cluster_seed(tried, scenario, make_host=host).violations
        if any(re.search(complaint, violation) for violation in found):
            return
    pytest.fail(f"not found: {found[:5]}")


def test_a_failed_run_is_shrunk_to_the_faults_that_it_needs() -> None:
    rules = HaRules()
    rules.durable = False

    def run(seed: int, scenario: str, seconds: int, skipped: frozenset[int]) -> Verdict:
        return run_cluster_seed(seed, scenario, seconds, skipped, ha_rules=rules)

    tried = (run(seed, "cluster", 8, frozenset()) for seed in MORE_SEEDS)
    failed = next(verdict for verdict in tried if not verdict.is_good and verdict.fault_count > 1)
    verdict, skipped = shrunk(failed, 8, run)
    assert not verdict.is_good
    assert failed.fault_count - len(skipped) < failed.fault_count
    # What is left is needed: without any one of them the run is good.
    for fault in set(range(1, failed.fault_count + 1)) - skipped:
        assert run(failed.seed, "cluster", 8, skipped | {fault}).is_good
