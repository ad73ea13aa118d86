"""A query on a cluster of two executors, processes of their own, of which two die on the way.

    python killed_executors.py OPTIONS-JSON CHECKPOINT FOLDER

Options are the source's, and `target`, the queue to write to. In the first micro-batch an executor
is killed when it has read a part of its rows, in the second one when it has staged a part of them
at the broker. Each leaves a file of its name in the folder: `reading`, `writing`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext

from penstock.spark.session import spark_session
from tests.spark.quick_java import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

# Before and behind these many octets of a task's rows: nothing, or some, is staged.
STAGED_BYTES = 3 * 1024 * 1024


def kill_executor(mark: Path) -> None:
    """Once. This is a Python worker; its parent is a daemon and that one's the executor."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    daemon = os.getppid()
    status = Path(f"/proc/{daemon}/stat").read_text(encoding="utf-8")
    executor = int(status.rpartition(")")[2].split()[1])
    os.kill(executor, signal.SIGKILL)
    signal.pause()


def main() -> None:
    options = json.loads(sys.argv[1])
    target = options.pop("target")
    folder = Path(sys.argv[3])

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        number = task.getLocalProperty("streaming.sql.batchId")
        passed = 0
        for batch in batches:
            yield batch
            passed += batch.nbytes
            if number == "0":
                kill_executor(folder / "reading")
            if number == "1" and passed > STAGED_BYTES:
                kill_executor(folder / "writing")

    session = spark_session(
        "local-cluster[2,1,1024]",
        "killed",
        spark__driver__memory="512m",
        spark__executor__memory="512m",
        spark__executor__extraJavaOptions=os.environ.get(SETTINGS, ""),
    )
    session.sparkContext.setLogLevel("ERROR")
    stream = session.readStream.format("penstock").options(**options, columns="body").load()
    query = (
        stream.mapInArrow(pass_on, "body binary")
        .writeStream.format("penstock")
        .options(uri=options["uri"], exchange="", routingKey=target)
        .option("checkpointLocation", sys.argv[2])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    session.stop()


if __name__ == "__main__":
    main()
