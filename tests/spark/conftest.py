"""One Spark session for all tests of a process, one broker process for each module."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
