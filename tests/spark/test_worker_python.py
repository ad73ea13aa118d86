"""Workers of our sessions import PySpark from the installed package, not from its archive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader

from penstock.spark.worker_python import worker_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

ARCHIVES = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9-src.zip"
JAR = "/spark/jars/spark-core_2.13-4.3.0.jar"


def path_in_worker(python: str, path: str) -> list[str]:
    code = "import os, sys; print(sys.executable, os.environ['PYTHONPATH'], sep='\\n')"
    told = subprocess.run(
        [python, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.splitlines()


def test_the_archives_are_taken_out_of_the_path_and_all_else_is_kept() -> None:
    given = f"{ARCHIVES}:{JAR}:/my folder/src:/other/pyspark.zip"
    executable, path = path_in_worker(worker_python("local[2]"), given)
    assert executable == sys.executable
    assert path == "/my folder/src:/other/pyspark.zip"


def test_on_a_cluster_workers_run_in_this_python_itself() -> None:
    assert worker_python("spark://host:7077") == sys.executable


def test_a_pyspark_that_workers_would_not_find_is_left_to_spark(tmp_path: Path) -> None:
    assert worker_python("local[2]", {}, tmp_path) == sys.executable
    assert worker_python("local[2]", {"PYTHONPATH": str(tmp_path)}, tmp_path) != sys.executable


def imported_from(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyspark

    for _ in batches:
        yield pa.record_batch({"file": [pyspark.__file__]})


class TellingSource(DataSource):
    """Has columns that are named after where PySpark was imported from, in a process that plans."""

    def schema(self) -> str:
        import pyspark

        return f"`{pyspark.__file__}` int"

    def reader(self, schema: StructType) -> DataSourceReader:
        raise NotImplementedError


@pytest.mark.slow
def test_tasks_and_processes_that_plan_import_the_installed_package(spark: SparkSession) -> None:
    import pyspark

    rows = spark.range(0, 1, 1, 1).mapInArrow(imported_from, "file string").collect()
    assert [row.file for row in rows] == [pyspark.__file__]
    spark.dataSource.register(TellingSource)
    assert spark.read.format("TellingSource").load().columns == [pyspark.__file__]
