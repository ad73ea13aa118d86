"""Peers that keep no promises do no harm (see tests.cluster.election_fuzz)."""

import pytest

from tests.cluster.election_fuzz import fuzzed

SEEDS = range(1, 5)
INPUTS_PER_SEED = 150


@pytest.mark.parametrize("seed", SEEDS)
def test_peers_that_contradict_what_is_known_are_refused(seed: int) -> None:
    fuzzer = fuzzed(seed, INPUTS_PER_SEED)
    # It was not refused at the door alone, and not always before anything happened.
    assert fuzzer.contradictions > INPUTS_PER_SEED
    assert {"joining", "candidate", "recovering", "active"} <= fuzzer.roles
    assert any("has another record" in reason for reason in fuzzer.reasons)
    assert any("for 'a' that is 'a'" in reason for reason in fuzzer.reasons)
    assert any("for 'a' that is 'b'" in reason for reason in fuzzer.reasons)
