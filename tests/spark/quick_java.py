"""Java settings for tests, which start Spark some dozens of times and run each for seconds.

Half of Spark's start is the loading of classes. Java can write those of one run into a file that
the next ones map; where it cannot, they start as slowly as ever. Java's second compiler only pays
in runs of minutes.

Spark's launcher takes the settings from the environment, so processes that tests start have them as
well.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
SETTINGS = "SPARK_SUBMIT_OPTS"
SHORT_RUNS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
WARMING_SECONDS_MAX = 240

# Loads what most tests need: SQL, streaming, a Python source.
WARMING = """
import sys, tempfile
from pyspark import SparkContext
from pyspark.sql.datasource import DataSource, DataSourceReader
from penstock.spark.session import spark_session

class Reader(DataSourceReader):
    def read(self, partition):
        yield (1,)

class Source(DataSource):
    def schema(self):
        return "a int"
    def reader(self, schema):
        return Reader()

spark = spark_session("local[2]")
spark.sparkContext.setLogLevel("OFF")
spark.dataSource.register(Source)
with tempfile.TemporaryDirectory() as folder:
    rows = spark.read.format("Source").load()
    rows.groupBy("a").count().write.parquet(folder + "/p")
    spark.read.parquet(folder + "/p").collect()
    query = spark.readStream.format("rate").load().writeStream.format("noop")
    query = query.option("checkpointLocation", folder + "/c").trigger(availableNow=True).start()
    query.awaitTermination()
spark.stop()
java = SparkContext._gateway.proc
java.stdin.close()
java.wait()
"""


def use_quick_java() -> None:
    """For this process and all that it starts, unless somebody has settings of their own."""
    if SETTINGS in os.environ:
        return
    archive = _archive()
    if not archive.exists():
        archive.parent.mkdir(exist_ok=True)
        environment = {**os.environ, SETTINGS: f"{SHORT_RUNS} -XX:ArchiveClassesAtExit={archive}"}
        subprocess.run(
            [sys.executable, "-c", WARMING],
            env=environment,
            timeout=WARMING_SECONDS_MAX,
            capture_output=True,
            check=False,
        )
    # A file that does not fit, or is not there, is passed over.
    shared = f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:disable"
    os.environ[SETTINGS] = f"{SHORT_RUNS} {shared}"
    os.environ["SPARK_LAUNCHER_OPTS"] = SHORT_RUNS


def _archive() -> Path:
    """Another Java or another Spark has other classes."""
    import pyspark

    from penstock.spark.java import java_home

    java = java_home()
    release = java / "release"
    about = f"{java} {release.read_text() if release.exists() else ''} {pyspark.__file__}"
    return CHECKOUT / ".penstock" / f"classes-{zlib.crc32(about.encode()):08x}.jsa"
