"""From an archive back to an exchange: in order, at a chosen rate, with confirms.

One task publishes, because order and a rate are asked for. A message may come twice when the task
is tried again: at least once. Properties are the original ones but for `user_id`, which the broker
takes from the login; header values are texts, as the archive keeps them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.client import blocking
from penstock.client.errors import ClientError
from penstock.spark.errors import PipelineError
from penstock.spark.rows_encoding import encode_rows
from penstock.spark.write_options import DEFAULT_EXCHANGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Messages that are sent at once, and how often per second the rate is checked.
STEP_ROWS: Final = 1000
STEPS_PER_SECOND: Final = 20
WINDOW: Final = 10_000
_COLUMNS: Final = ("exchange", "routing_key", "headers", "header_types", "properties", "body")


@dataclass(frozen=True, slots=True)
class Publish:
    """Publishes every batch it is given, in one task. Sent to an executor."""

    uri: str
    # None: the exchange to which each message was published.
    exchange: str | None
    routing_key: str | None
    # Messages per second; 0 for no limit.
    rate: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        count = 0
        step = STEP_ROWS
        if self.rate:
            step = max(1, min(STEP_ROWS, int(self.rate / STEPS_PER_SECOND)))
        began = time.monotonic()
        try:
            with blocking.connect(self.uri) as connection, connection.channel() as channel:
                channel.select_confirms(WINDOW)
                for batch in batches:
                    for first in range(0, batch.num_rows, step):
                        self._keep_to_rate(began, count)
                        part = batch.slice(first, step)
                        rows = encode_rows(part, self.exchange, self.routing_key)
                        frames, ends = rows.frames(channel.number, False)
                        channel.publish_encoded(bytes(frames[ends[0] : ends[-1]]), len(rows))
                        count += len(rows)
                channel.wait_for_confirms()
        except ClientError as error:
            raise PipelineError(f"after {count:,} messages: {error}") from None
        yield pa.record_batch({"count": pa.array([count], pa.int64())})

    def _keep_to_rate(self, began: float, count: int) -> None:
        if self.rate:
            early = began + count / self.rate - time.monotonic()
            if early > 0:
                time.sleep(early)


def replay(
    rows: DataFrame,
    uri: str,
    exchange: str | None = None,
    routing_key: str | None = None,
    rate: float = 0.0,
) -> int:
    """Publish rows of an archive in the order of their times; returns how many were confirmed."""
    if "header_types" not in rows.columns:
        # An archive without header types.
        rows = rows.selectExpr("*", "cast(null AS map<string, string>) AS header_types")
    ordered = rows.orderBy("timestamp", "stream", "partition", "offset").select(*_COLUMNS)
    exchange = "" if exchange == DEFAULT_EXCHANGE else exchange
    step = Publish(uri, exchange, routing_key, rate)
    published = ordered.coalesce(1).mapInArrow(step, "count bigint").collect()
    return sum(int(row["count"]) for row in published)
