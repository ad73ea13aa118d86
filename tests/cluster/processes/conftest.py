"""A cluster of real processes for each test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.builds import build_mode
from tests.cluster.processes.servers import RunningCluster, running_cluster

HERE = Path(__file__).parent
# What the pure build runs of this folder as part of the whole suite: elections take their time, and
# the compiled suite runs all of it.
SAMPLE = ("test_three_servers.py",)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything is run where somebody asks for this folder or a part of it."""
    is_asked_for = any("cluster" in argument for argument in config.args)
    if build_mode() == "compiled" or is_asked_for:
        return
    left_out = [item for item in items if item.path.parent == HERE and item.path.name not in SAMPLE]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[RunningCluster]:
    """Three servers; `start` formats and starts them."""
    with running_cluster(tmp_path, 3) as cluster:
        yield cluster


@pytest.fixture
def five(tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path, 5) as cluster:
        yield cluster
