"""Reading and writing over TLS, with certificates on both sides and authorities of our own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish_numbers
from tests.spark.spark_versions import STREAM_WRITER, needs_spark
from tests.spark.written import declare_target, numbers_in
from tests.support.certificates import authority, signed_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ours.pem, theirs.pem, and what they signed: server, client, stranger."""
    folder = tmp_path_factory.mktemp("certificates")
    ours = authority(folder, "ours")
    signed_by(ours, folder, "server")
    signed_by(ours, folder, "client")
    signed_by(authority(folder, "theirs"), folder, "stranger")
    return folder


@pytest.fixture(scope="module")
def broker(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    configuration = files / "penstock.toml"
    configuration.write_text(
        '[http]\ntls_certificate = "server.pem"\ntls_key = "server.key"\n'
        'tls_client_ca = "ours.pem"\n'
        '[tls]\nport = 0\ncertificate = "server.pem"\nkey = "server.key"\nclient_ca = "ours.pem"\n'
    )
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), f"--config={configuration}")
    yield process
    process.close()


def secure(broker: BrokerProcess, files: Path, ca: str, ours: str) -> dict[str, str]:
    return {
        "uri": broker.uri.replace("http:", "https:"),
        "retryTimeout": "2s",
        "tlsCaFile": str(files / f"{ca}.pem"),
        "tlsCertFile": str(files / f"{ours}.pem"),
        "tlsKeyFile": str(files / f"{ours}.key"),
    }


def test_rows_are_published_directly_over_tls(
    spark: SparkSession, broker: BrokerProcess, files: Path, name: str
) -> None:
    declare_target(broker, name)
    access = secure(broker, files, "ours", "client")
    direct = {"deduplicate": "false", "amqpUri": f"amqps://127.0.0.1:{broker.tls_port}"}
    frame = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) as body")
    writing = frame.write.format("penstock").mode("append")
    writing.options(**access, **direct, exchange="", routingKey=name).save()
    assert numbers_in(broker, name) == list(range(1000))
    # The HTTP port knows the client, the AMQP port meets a stranger.
    shown = f"certfile={files / 'stranger.pem'}&keyfile={files / 'stranger.key'}"
    stranger = {**direct, "amqpUri": f"{direct['amqpUri']}/?{shown}"}
    with pytest.raises(Exception, match="The broker cannot be reached over AMQP"):
        writing.options(**access, **stranger, exchange="", routingKey=name).save()


@needs_spark("4.1", STREAM_WRITER)
def test_a_stream_goes_through_spark_over_tls(
    spark: SparkSession, broker: BrokerProcess, files: Path, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, f"{name}-in")
    declare_target(broker, name)
    publish_numbers(broker, f"{name}-in", 0, 500)
    access = secure(broker, files, "ours", "client")
    read = {**access, "stream": f"{name}-in", "columns": "body"}
    write = {**access, "exchange": "", "routingKey": name}
    (
        spark.readStream.format("penstock")
        .options(**read, startingOffsets="earliest")
        .load()
        .writeStream.format("penstock")
        .options(**write)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    assert numbers_in(broker, name) == list(range(500))
    # Whoever trusts anybody needs no authority; the broker still asks who they are.
    del read["tlsCaFile"]
    assert spark.read.format("penstock").options(**read, tlsVerify="false").load().count() == 500


@pytest.mark.parametrize(
    ("ca", "ours", "said"),
    [
        ("theirs", "client", r"option 'tlsCaFile': the certificate of https://\S+ is not trusted"),
        ("nowhere", "client", r"option 'tlsCaFile': cannot use the TLS files"),
        (
            "ours",
            "stranger",
            r"closes connections without a trusted one: set the options 'tlsCertF",
        ),
    ],
)
def test_whoever_is_not_trusted_is_said_before_a_job_starts(
    spark: SparkSession, broker: BrokerProcess, files: Path, ca: str, ours: str, said: str
) -> None:
    access = secure(broker, files, ca, ours)
    with pytest.raises(Exception, match=said):
        spark.readStream.format("penstock").options(**access, stream="any").load()
    frame = spark.range(1).selectExpr("'x' as body")
    with pytest.raises(Exception, match=said):
        frame.write.format("penstock").options(**access, exchange="", routingKey="any").mode(
            "append"
        ).save()
