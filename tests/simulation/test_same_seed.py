"""The same seed gives the same history, byte for byte: in one process, in two, in both builds."""

import os
import subprocess
import sys

import pytest

from penstock.builds import build_mode
from penstock.simulation.run import run_seed
from penstock.simulation.scenarios import SCENARIOS

DIGESTS = """
from penstock.builds import build_mode
from penstock.simulation.run import run_seed
from penstock.simulation.scenarios import SCENARIOS
print(build_mode(), *[run_seed(7, scenario).digest for scenario in SCENARIOS])
"""


def digests_here() -> list[str]:
    return [run_seed(7, scenario).digest for scenario in SCENARIOS]


def digests_elsewhere(**environment: str) -> list[str]:
    output = subprocess.check_output(
        [sys.executable, "-P", "-c", DIGESTS], env={**os.environ, **environment}, text=True
    )
    return output.split()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_same_seed_gives_the_same_history_twice(scenario: str) -> None:
    once = run_seed(11, scenario)
    again = run_seed(11, scenario)
    assert once.lines == again.lines
    assert len(once.lines) > 100


def test_another_seed_gives_another_history() -> None:
    assert run_seed(1, "plain").digest != run_seed(2, "plain").digest


@pytest.mark.parametrize("hash_seed", ["1", "4711"])
def test_another_process_with_other_hashes_gives_the_same_history(hash_seed: str) -> None:
    assert digests_elsewhere(PYTHONHASHSEED=hash_seed) == [build_mode(), *digests_here()]


def test_the_pure_build_gives_the_same_history_as_the_compiled_one() -> None:
    if build_mode() != "compiled":
        pytest.skip("only the pure build is here; the compiled suite compares the two")
    pure = digests_elsewhere(PENSTOCK_PURE="1", PENSTOCK_REQUIRE_COMPILED="0")
    assert pure == ["pure", *digests_here()]
