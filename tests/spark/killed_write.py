"""A streaming write that kills its whole driver, JVM included, around the commit of a micro-batch.

    python killed_write.py OPTIONS-JSON CHECKPOINT - STEP BATCH

Options are the source's, and `target`, the queue to write to. Steps: those of a writer in
`killing_source`; `committed` (Spark has committed); `never` lets it end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from penstock.spark.session import spark_session
from tests.spark.killing_source import KillingSource


def main() -> None:
    options = json.loads(sys.argv[1])
    target = options.pop("target")
    session = spark_session(
        "local[2]", "killed", spark__driver__memory="512m", spark__sql__shuffle__partitions="2"
    )
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KillingSource)
    stream = session.readStream.format("penstock").options(**options, columns="body").load()
    checkpoint, step, batch = sys.argv[2], sys.argv[4], sys.argv[5]
    killed = json.dumps([os.getpgid(0), step, int(batch)])
    query = (
        # A shuffle, so that rows come in another order each time.
        stream.repartition(3)
        .writeStream.format("killing")
        .options(uri=options["uri"], exchange="", routingKey=target, killed=killed)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    while step == "committed" and query.isActive:
        if (Path(checkpoint) / "commits" / batch).exists():
            os.killpg(os.getpgid(0), signal.SIGKILL)
        time.sleep(0.001)
    query.awaitTermination()
    session.stop()


if __name__ == "__main__":
    main()
