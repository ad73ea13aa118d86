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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before Spark 4.2 its client leaves sockets to the collector."""
    if SPARK < (4, 2):
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket"))


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
