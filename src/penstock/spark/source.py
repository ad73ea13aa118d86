"""The data source `penstock`, as Spark sees it: options in, readers and writers out.

Spark makes one of these in a Python process of its own whenever it plans something, so nothing is
kept here. Errors in the options are raised here or in the readers' first calls: in the driver,
before a job starts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from penstock.spark.options import ReadOptions
    from penstock.spark.write_options import WriteOptions


class PenstockDataSource(DataSource):
    """Registered by `penstock.spark.register`."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        from penstock.spark.columns import spark_schema
        from penstock.spark.first_contact import check_source

        options = self._read_options()
        # Fails at once when the broker cannot be reached, the login is refused or a stream is
        # missing.
        check_source(options)
        return spark_schema(options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.batch_reader import BatchReader, FilteringBatchReader

        options = self._read_options(schema).for_batch()
        return FilteringBatchReader(options) if options.pushes_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = self._read_options(schema).for_streaming()
        if options.queue is not None:
            from penstock.spark.lease_reader import LeaseReader

            return LeaseReader(options)
        from penstock.spark.stream_reader import StreamReader

        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.writer import BatchWriter, DirectWriter

        options = self._write_options(schema, overwrite, is_first_contact=True)
        return BatchWriter(options) if options.deduplicate else DirectWriter(options)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from penstock.spark.errors import PipelineError

        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            raise PipelineError(
                "a streaming write needs Spark 4.1 or later. With earlier versions write each "
                "micro-batch as a batch in foreachBatch, which gives at-least-once."
            )
        from penstock.spark.first_contact import has_committed
        from penstock.spark.stream_writer import DirectStreamWriter, StreamWriter

        # Called for every micro-batch: all but the first wait for a broker that restarts.
        is_first_contact = not has_committed(dict(self.options))
        options = self._write_options(schema, overwrite, is_first_contact)
        return StreamWriter(options) if options.deduplicate else DirectStreamWriter(options)

    def _write_options(
        self, schema: StructType, overwrite: bool, is_first_contact: bool = False
    ) -> WriteOptions:
        from penstock.spark.direct_publish import amqp_addresses
        from penstock.spark.errors import OptionError
        from penstock.spark.first_contact import check_amqp
        from penstock.spark.staging import check_target
        from penstock.spark.write_options import write_options

        if overwrite:
            raise OptionError(
                "mode", "published messages cannot be overwritten", "Use the mode append."
            )
        options = write_options(dict(self.options), schema)
        check_target(options, is_first_contact)
        if is_first_contact and not options.deduplicate:
            check_amqp(amqp_addresses(options), options.access.at_first_contact().retry_seconds)
        return options

    def _read_options(self, schema: StructType | None = None) -> ReadOptions:
        """A schema given by the user takes precedence over the option `columns`."""
        from penstock.spark.columns import columns_of
        from penstock.spark.options import read_options

        options = read_options(dict(self.options))
        return options if schema is None else replace(options, columns=columns_of(schema))
