"""The C library keeps freed memory: what is asked of it, and that it helps."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from penstock.server.allocation import KEPT_BYTES_MAX, MAPPED_BYTES_MIN, keep_freed_memory

# Four copies of an operation, a hundred times, each time freed before the next. Prints how many pages had
# to be fetched for them.
BUFFERS = """
import resource
from penstock.server.allocation import keep_freed_memory
if {keeps}:
    assert keep_freed_memory()
octets = bytes(600_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    copies = [bytes(memoryview(octets)) for _ in range(4)]
    del copies
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES_OF_BUFFERS = 100 * 4 * 600_000 // 4096


class CountingLibrary:
    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.settings: list[tuple[int, int]] = []

    def __call__(self, setting: int, value: int) -> int:
        self.settings.append((setting, value))
        return self.answer


def test_both_thresholds_are_set() -> None:
    library = CountingLibrary(1)
    assert keep_freed_memory(library, {})
    assert library.settings == [(-1, KEPT_BYTES_MAX), (-3, MAPPED_BYTES_MIN)]


def test_a_library_that_refuses_is_noticed() -> None:
    assert not keep_freed_memory(CountingLibrary(0), {})


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_what_an_operator_has_set_is_left_alone(name: str) -> None:
    library = CountingLibrary(1)
    assert not keep_freed_memory(library, {name: "1"})
    assert not library.settings


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are glibc's")
def test_buffers_of_operations_are_not_fetched_from_the_system_again_and_again() -> None:
    assert _faults(keeps=False) > PAGES_OF_BUFFERS / 2
    assert _faults(keeps=True) < PAGES_OF_BUFFERS / 10


def _faults(*, keeps: bool) -> int:
    done = subprocess.run(
        [sys.executable, "-c", BUFFERS.format(keeps=keeps)],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)
