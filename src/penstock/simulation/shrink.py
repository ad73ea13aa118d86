"""A short story of a failed run: faults are left out one after the other as long as it still fails."""

from collections.abc import Callable

from penstock.simulation.run import Verdict, run_seed


def shrunk(
    failed: Verdict,
    seconds: int,
    run: Callable[[int, str, int, frozenset[int]], Verdict] | None = None,
) -> tuple[Verdict, frozenset[int]]:
    """The verdict with the fewest faults that was found, and the numbers of those left out. A run
    without faults that fails is the shortest story.
    """
    run = run or _run_without
    left = list(range(1, failed.fault_count + 1))
    everything = frozenset(left)
    best = failed
    size = len(left)
    while size:
        before = len(left)
        at = 0
        while at < len(left):
            tried = left[:at] + left[at + size :]
            verdict = run(failed.seed, failed.scenario, seconds, everything - frozenset(tried))
            if verdict.is_good:
                at += size
            else:
                left = tried
                best = verdict
        if size > 1 or len(left) == before:
            # One that was needed may be needless without another that was left out after it.
            size //= 2
    return best, everything - frozenset(left)


def _run_without(seed: int, scenario: str, seconds: int, skipped: frozenset[int]) -> Verdict:
    return run_seed(seed, scenario, seconds, skipped=skipped)
