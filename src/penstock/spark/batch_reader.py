"""Streams as a batch source: from one offset to another, fixed when the query is planned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.spark.errors import OptionError
from penstock.spark.http_client import client_for
from penstock.spark.offset_choice import EARLIEST
from penstock.spark.progress import Extent
from penstock.spark.pushed_filters import Bounds, bounds_of
from penstock.spark.slices import StreamSlice, plan_slices, read_slice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from penstock.spark.options import ReadOptions


class BatchReader(DataSourceReader):
    """Made by the data source in Spark's planning process; sent with each task."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        client = client_for(options.access)
        streams = options.subscription.resolve(client)
        starting = options.starting_or(EARLIEST)
        ending = options.ending_or_latest()
        starting.check_names(streams)
        ending.check_names(streams)
        extents: list[Extent] = []
        for stream in streams.values():
            start = starting.in_stream(client, stream, options.fail_on_loss)
            end = ending.in_stream(client, stream, options.fail_on_loss)
            if start > end:
                raise OptionError(
                    ending.option,
                    f"the end offset {end} of stream '{stream.name}' is before its start offset "
                    f"{start}",
                    f"Choose a later end or another '{starting.option}'.",
                )
            extent = self._bounds.within(client, Extent(stream, start, end))
            if extent.start < extent.end:
                extents.append(extent)
        return plan_slices(client, extents, options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark adds a partition of its own when this returns none.
        if not isinstance(partition, StreamSlice):
            return iter(())
        return read_slice(partition, self._options)


class FilteringBatchReader(BatchReader):
    """Uses Spark's filters on offset, timestamp, stream, partition and routing key as bounds of
    what is read. A separate class, since Spark refuses a reader that takes filters when
    spark.sql.python.filterPushdown.enabled is false.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._bounds = bounds_of(filters)
        expressions = self._bounds.key_expressions
        if expressions:
            self._options = replace(
                self._options, row_filter=self._bounds.added_to(self._options.row_filter)
            )
        # Bounds may let more through than the filters, so Spark applies them again.
        return filters
