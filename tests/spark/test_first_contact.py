"""The first question to a broker fails within seconds, however patient a running query is."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.spark.address import TlsFiles, read_access
from penstock.spark.errors import BrokerUnreachable, OptionError, PipelineError
from penstock.spark.first_contact import NoContact, check_amqp, check_source, has_committed
from penstock.spark.http_client import BrokerClient
from penstock.spark.options import read_options
from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream
from tests.spark.spark_versions import STREAM_WRITER, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Far above the five seconds that it takes, far below the minute that `retryTimeout` is.
SECONDS_MAX = 55.0


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


@pytest.mark.parametrize("what", [{"stream": "s"}, {"queue": "q", "owner": "o"}])
def test_a_port_where_nobody_listens_is_told_within_seconds(what: dict[str, str]) -> None:
    uri = f"http://127.0.0.1:{closed_port()}/"
    begun = time.monotonic()
    with pytest.raises(BrokerUnreachable) as caught:
        check_source(read_options({"uri": uri, **what}))
    assert time.monotonic() - begun < SECONDS_MAX
    said = str(caught.value)
    assert uri.rstrip("/") in said
    assert "within 5 seconds" in said
    assert "refused" in said
    assert "'firstContactTimeout'" in said


def test_a_port_that_is_silent_is_told_within_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        uri = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        begun = time.monotonic()
        with pytest.raises(BrokerUnreachable, match="timed out"):
            check_source(read_options({"uri": uri, "stream": "s"}))
        assert time.monotonic() - begun < SECONDS_MAX


def test_the_amqp_port_is_told_from_the_http_port_at_once(broker: BrokerProcess) -> None:
    uri = broker.amqp_uri.replace("amqp://", "http://")
    with pytest.raises(OptionError, match="is an AMQP port"):
        check_source(read_options({"uri": uri, "stream": "s"}))


def test_what_the_options_name_must_be_there(broker: BrokerProcess, name: str) -> None:
    given = {"uri": broker.uri, "streamPattern": f"{name}-.*"}
    with pytest.raises(OptionError, match=f"no stream in virtual host '/' matches '{name}-"):
        check_source(read_options(given))
    declare_stream(broker, f"{name}-1")
    check_source(read_options(given))
    with pytest.raises(OptionError, match="no stream"):
        check_source(read_options({"uri": broker.uri, "stream": name}))


def test_every_address_is_tried_even_when_the_first_takes_all_the_time(
    broker: BrokerProcess,
) -> None:
    uri = f"http://127.0.0.1:{closed_port()}/,{broker.uri}"
    client = BrokerClient(read_access(uri, None, None, TlsFiles(), 0.0))
    assert "streams" in client.get_json(client.path("streams", "/"))
    client.close()


def test_an_amqp_address_where_nobody_listens_is_named(broker: BrokerProcess) -> None:
    check_amqp(broker.amqp_uri, 5.0)
    uri = f"amqp://127.0.0.1:{closed_port()}"
    with pytest.raises(NoContact, match=uri.removeprefix("amqp://")):
        check_amqp(uri, 5.0)
    assert issubclass(NoContact, PipelineError)


def test_a_query_that_has_finished_a_micro_batch_is_not_at_its_first_contact(
    tmp_path: Path,
) -> None:
    given = {"checkpointLocation": f"file://{tmp_path}"}
    assert not has_committed(given)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / ".0.crc").touch()
    assert not has_committed(given)
    (tmp_path / "commits" / "0").touch()
    assert has_committed(given)
    assert has_committed({"checkpointlocation": str(tmp_path)})
    # Nobody knows.
    assert has_committed({})
    assert has_committed({"checkpointLocation": "s3a://bucket/checkpoint"})


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_reads_and_writes_of_spark_say_so_within_seconds(spark: SparkSession) -> None:
    given = {"uri": f"http://127.0.0.1:{closed_port()}/"}
    begun = time.monotonic()
    for what in ({"stream": "s"}, {"queue": "q", "owner": "o"}):
        with pytest.raises(Exception, match="Check that the broker is running"):
            spark.readStream.format("penstock").options(**given, **what).load()
    rows = spark.range(3).selectExpr("cast(id AS string) AS body")
    with pytest.raises(Exception, match="Check that the broker is running"):
        rows.write.format("penstock").options(**given, exchange="", routingKey="q").save(
            mode="append"
        )
    assert time.monotonic() - begun < 3 * SECONDS_MAX


@pytest.mark.slow
@pytest.mark.timeout(300)
@needs_spark("4.1", STREAM_WRITER)
def test_the_first_micro_batch_of_a_streaming_write_says_so_within_seconds(
    spark: SparkSession, tmp_path: Path
) -> None:
    begun = time.monotonic()
    query = (
        spark.readStream.format("rate")
        .load()
        .selectExpr("cast(value AS string) AS body")
        .writeStream.format("penstock")
        .options(uri=f"http://127.0.0.1:{closed_port()}/", exchange="", routingKey="q")
        .option("checkpointLocation", str(tmp_path / "made by Spark"))
        .start()
    )
    with pytest.raises(Exception, match="within 5 seconds"):
        query.awaitTermination()
    assert time.monotonic() - begun < SECONDS_MAX
