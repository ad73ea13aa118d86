"""A sink that writes to a replicated stream on real servers whose roots are killed: every row once.

The job is the data source without Spark: it stages a partition and commits the batch, and begins the batch
again as another attempt when that fails, or although it was committed, as a driver does that was killed
before it had written down that it was.
"""

import contextlib
import random
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from penstock.spark.errors import BrokerRefused, BrokerUnreachable
from penstock.spark.http_client import client_for
from penstock.spark.staging import StagedPartition, commit_rows, stage_rows
from penstock.spark.write_options import WriteOptions, write_options
from tests.cluster.processes.servers import PATIENCE_SECONDS, RunningCluster
from tests.cluster.processes.stream_traffic import (
    STREAM,
    await_equal_logs,
    declare_stream,
    everything,
)

pytestmark = pytest.mark.timeout(900)

SINK = "job"
# Of a batch. Many requests carry them, so that a kill can come in between.
ROWS = 2000
ROWS_OF_REQUEST = 100
KILLS = 4
FORGETTING_CHANCE = 0.3
SEED = 20
# Between a root that is whole and its end.
DELAY_SECONDS_MAX = 0.5
SCHEMA = StructType([StructField("body", BinaryType())])


def options_for(cluster: RunningCluster) -> WriteOptions:
    hosts = ",".join(f"http://guest:guest@127.0.0.1:{one.http_port}/" for one in cluster.servers)
    options = {"uri": hosts, "exchange": "", "routingKey": STREAM, "sink": SINK}
    return write_options({**options, "window": str(ROWS_OF_REQUEST)}, SCHEMA)


def bodies(batch: int) -> list[bytes]:
    return [b"%d.%d" % (batch, row) for row in range(ROWS)]


class Job(threading.Thread):
    """Writes batches, one after the other, each until it is committed."""

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(daemon=True)
        self._options = options
        # How many are committed.
        self.written = 0
        self._dice = random.Random(SEED)
        self._is_ending = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._is_ending.is_set():
                is_known = False
                while not is_known:
                    is_known = self._is_written(self.written) and self._is_remembered()
                self.written += 1
        except BaseException as error:
            self._error = error
        finally:
            client_for(self._options.access).close()

    def end(self) -> None:
        """Completes the batch that is under way."""
        self._is_ending.set()
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive(), "the job hangs"
        if self._error is not None:
            raise self._error

    def _is_written(self, batch: int) -> bool:
        with contextlib.suppress(BrokerRefused, BrokerUnreachable):
            staged = stage_rows(self._options, SINK, batch, self._rows(batch))
            assert isinstance(staged, StagedPartition)
            assert staged.count == ROWS
            commit_rows(self._options, batch, [staged])
            return True
        return False

    def _is_remembered(self) -> bool:
        return self._dice.random() >= FORGETTING_CHANCE

    def _rows(self, batch: int) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"body": pa.array(bodies(batch), pa.binary())})


def kill_roots(cluster: RunningCluster, job: Job) -> None:
    """While the job writes; each comes back when the job has gone on without it."""
    dice = random.Random(SEED)
    for _ in range(KILLS):
        root = cluster.whole_root()
        job.join(dice.uniform(0, DELAY_SECONDS_MAX))
        root.kill()
        before = job.written

        def has_gone_on(before: int = before) -> bool:
            # The batch that was under way, and one that is wholly the next root's.
            return job.written > before + 1 or not job.is_alive()

        cluster.until("the job goes on", has_gone_on)
        root.start()


def test_every_row_of_a_sink_is_in_the_stream_once_when_roots_are_killed(
    three: RunningCluster,
) -> None:
    three.start()
    declare_stream(three)
    three.whole_root()
    job = Job(options_for(three))
    job.start()
    try:
        kill_roots(three, job)
    finally:
        job.end()
    expected = [body for batch in range(job.written) for body in bodies(batch)]
    assert everything(three) == expected
    # On all servers, not only on the last root.
    await_equal_logs(three)
