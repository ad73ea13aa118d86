"""The data pipeline on Spark: `penstock` as a data source, and the broker's own jobs.

import penstock.spark

penstock.spark.register(spark)
spark.readStream.format("penstock").option("uri", "http://localhost:15672/").option(...)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register `format("penstock")` with a session. Calling it again does no harm."""
    from penstock.spark.source import PenstockDataSource

    spark.dataSource.register(PenstockDataSource)
