"""A Spark session that works out of the box: Java found, workers in this Python, source known."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from penstock.spark.java import java_home
from penstock.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK: Final = "127.0.0.1"
# Micro-batches of a million rows ran at full speed in half of this.
DRIVER_MEMORY: Final = "1g"
# Arrow's Java checks the bounds of every single value it reads, and asks once more whether it is null
# after Spark has asked: a sixth of the time of a read. What it reads was written by Arrow in the
# worker process beside it (docs/adr/0016). As defaults, they come before the user's own options.
ARROW_UNCHECKED: Final = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)

DEFAULTS: Final = {
    "spark.driver.defaultJavaOptions": ARROW_UNCHECKED,
    "spark.executor.defaultJavaOptions": ARROW_UNCHECKED,
    # Over TCP each task waits 40 ms for an acknowledgement before it begins (docs/adr/0017).
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.memory": DRIVER_MEMORY,
    # INT96, the default, is a form of Parquet that other readers misunderstand.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    # The batch reader can skip segments by offset, time and routing key.
    "spark.sql.python.filterPushdown.enabled": "true",
}


def spark_session(
    master: str = "local[*]", app_name: str = "penstock", **settings: str
) -> SparkSession:
    """The session of this process. `settings` are Spark's, with `__` for each dot."""
    os.environ["JAVA_HOME"] = str(java_home())
    # Otherwise workers run the `python3` on the path, without our packages.
    os.environ["PYSPARK_PYTHON"] = worker_python(master)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    from pyspark.sql import SparkSession

    from penstock.spark import register

    builder = SparkSession.builder.master(master).appName(app_name)
    chosen = {name.replace("__", "."): value for name, value in settings.items()}
    for name, value in {**_defaults(master), **chosen}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    register(session)
    return session


def _defaults(master: str) -> dict[str, str]:
    """A cluster's executors must reach the driver, so loopback is for local masters only."""
    if master.startswith("local"):
        return DEFAULTS
    return {name: value for name, value in DEFAULTS.items() if value != LOOPBACK}
