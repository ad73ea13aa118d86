"""One Spark session for all tests of a process, one broker process for each module."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.quick_java import use_quick_java
from tests.spark.spark_versions import SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        # Workers are started with it.
        use_quick_java()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files whose tests are given the most time come first, else one worker ends long after the
    other. And before Spark 4.2 its client leaves sockets to the collector.
    """
    longest: dict[Path, float] = {}
    for item in items:
        longest[item.path] = max(longest.get(item.path, 0.0), _seconds_given(item))
    items.sort(key=lambda item: longest[item.path], reverse=True)
    if SPARK < (4, 2):
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket"))


def _seconds_given(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker and marker.args else 0.0


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from penstock.spark.session import spark_session

    session = spark_session(
        "local[2]",
        "tests",
        spark__driver__memory="512m",
        spark__sql__shuffle__partitions="2",
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("broker"))
    yield process
    process.close()


@pytest.fixture
def name() -> str:
    """Of a stream or a queue that nobody else has."""
    return f"s{uuid.uuid4().hex[:10]}"
