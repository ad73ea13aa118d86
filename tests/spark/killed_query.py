"""A streaming query that kills its whole driver, JVM included, at a named step of a micro-batch.

    python killed_query.py OPTIONS-JSON CHECKPOINT OUT STEP BATCH

Steps: `asked` (of `killing_source`), `planned` (the sink is called, nothing is read), `read`,
`written` (the sink's file is there, Spark has not committed), `committed`; `never` lets it end. The sink writes one file per micro-batch,
whole or not at all, and a repeated micro-batch overwrites its file: an idempotent sink.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.spark.session import spark_session
from tests.spark.killing_source import KillingSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main() -> None:
    options = json.loads(sys.argv[1])
    checkpoint, out, step, batch = Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5]
    session = spark_session(
        "local[2]", "killed", spark__driver__memory="512m", spark__sql__shuffle__partitions="2"
    )
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(KillingSource)
    options["killed"] = json.dumps([os.getpgid(0), step, int(batch)])

    def reached(here: str, number: int) -> None:
        if here == step and number == int(batch):
            os.killpg(os.getpgid(0), signal.SIGKILL)

    def write(frame: DataFrame, number: int) -> None:
        reached("planned", number)
        # A shuffle, so that rows come in another order each time.
        rows = [[row.offset, row.body.decode()] for row in frame.repartition(3).collect()]
        reached("read", number)
        written = out / f"{number}.part"
        written.write_text(json.dumps(rows))
        written.replace(out / f"{number}.json")
        reached("written", number)

    stream: Any = session.readStream.format("killing").options(**options).load()
    query = (
        stream.select("offset", "body")
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    while step == "committed" and query.isActive:
        if (checkpoint / "commits" / batch).exists():
            reached("committed", int(batch))
        time.sleep(0.001)
    query.awaitTermination()
    session.stop()


if __name__ == "__main__":
    main()
