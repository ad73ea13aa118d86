"""What cannot be read is said in the driver, before a job starts, as Spark's users see it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish_numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stream": "no-such-stream"}, "stream 'no-such-stream' in vhost '/'"),
        ({"stream": "x", "colums": "body"}, "Did you mean 'columns'"),
        ({"stream": "x", "columns": "bodi"}, "option 'columns': unknown column 'bodi'"),
        ({"stream": "x", "queue": "y", "owner": "z"}, "cannot be combined with 'queue'"),
        ({"queue": "y"}, "option 'owner': it is missing"),
        ({"stream": "x", "user": "guest", "password": "wrong"}, "the login was refused"),
        ({"stream": "x", "uri": "http://127.0.0.1:1/"}, "Check that the broker is running"),
        ({"stream": "x", "uri": "amqp://127.0.0.1"}, "is an AMQP address"),
        ({"streamPattern": "none-.*"}, "no stream in virtual host '/' matches 'none-.*'"),
    ],
)
def test_loading_says_what_is_wrong(
    spark: SparkSession, broker: BrokerProcess, options: dict[str, str], said: str
) -> None:
    given = {"uri": broker.uri, "retryTimeout": "1s", **options}
    with pytest.raises(Exception) as caught:
        spark.readStream.format("penstock").options(**given).load()
    assert said in str(caught.value)


def test_offsets_out_of_range_end_a_query_before_any_task(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 10)
    given = {"uri": broker.uri, "stream": name, "startingOffsets": "11"}
    said = f"stream '{name}' has the offsets 0 to 9; the next one is 10"
    with pytest.raises(Exception, match=said):
        spark.read.format("penstock").options(**given).load().count()
    query = (
        spark.readStream.format("penstock")
        .options(**given)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match=said):
        query.awaitTermination()
    assert not query.recentProgress


def test_a_batch_that_would_end_before_it_begins_is_refused(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 10)
    frame = (
        spark.read.format("penstock")
        .options(uri=broker.uri, stream=name, startingOffsets="8", endingOffsets="3")
        .load()
    )
    with pytest.raises(Exception, match="is before its start offset 8"):
        frame.count()


def test_a_schema_that_is_not_ours_ends_a_query_before_any_task(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 10)
    reader = spark.readStream.format("penstock").options(uri=broker.uri, stream=name)
    with pytest.raises(Exception, match="no column 'body string'"):
        (
            reader.schema("body string")
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path))
            .start()
            .awaitTermination()
        )
