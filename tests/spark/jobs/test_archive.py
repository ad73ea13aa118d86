"""Archive and replay: every message once, and back again as it was."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.client.calls import declare_queue
from penstock.spark.jobs.archive import ArchiveRefused, archive, read_archive, write_batch
from penstock.spark.jobs.archive_care import ASIDE, compact, finish, retain
from penstock.spark.jobs.lake_files import LakeFiles
from penstock.spark.jobs.replay import replay
from penstock.wire.amqp091.content import BasicProperties
from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish, publish_numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow


def caught_up(spark: SparkSession, root: Path, broker: BrokerProcess, stream: str) -> None:
    options = {"uri": broker.uri, "stream": stream, "maxMessagesPerTrigger": "400"}
    query = archive(spark, str(root), options)
    assert query.awaitTermination(60)


def offsets(spark: SparkSession, root: Path) -> list[int]:
    rows = read_archive(spark, str(root)).orderBy("offset").collect()
    assert [int(row.body) for row in rows] == [row.offset for row in rows]
    return [row.offset for row in rows]


def batches(root: Path) -> list[Path]:
    return sorted(root.glob("stream=*/date=*/batch=*"))


def test_an_archive_goes_on_where_it_stopped_and_repeats_nothing(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 1000)
    caught_up(spark, tmp_path, broker, name)
    caught_up(spark, tmp_path, broker, name)
    assert offsets(spark, tmp_path) == list(range(1000))
    publish_numbers(broker, name, 1000, 1500)
    caught_up(spark, tmp_path, broker, name)
    assert offsets(spark, tmp_path) == list(range(1500))
    # Killed after it wrote a batch and before that was noted: the batch comes again.
    last = max((tmp_path / "_checkpoint" / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    caught_up(spark, tmp_path, broker, name)
    assert offsets(spark, tmp_path) == list(range(1500))
    before = len(batches(tmp_path))
    assert before > 1
    assert compact(spark, str(tmp_path)) == before
    assert len(batches(tmp_path)) == len(set(tmp_path.glob("stream=*/date=*")))
    assert offsets(spark, tmp_path) == list(range(1500))
    publish_numbers(broker, name, 1500, 1600)
    caught_up(spark, tmp_path, broker, name)
    assert offsets(spark, tmp_path) == list(range(1600))


def one_row(spark: SparkSession, stream: str, offset: int, day: int) -> DataFrame:
    return spark.createDataFrame(
        [(stream, 0, offset, datetime(2026, 11, day, 12, tzinfo=UTC), b"%d" % offset)],
        "stream string, partition int, offset bigint, timestamp timestamp, body binary",
    )


def test_a_compaction_that_was_killed_is_finished_by_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    for number in range(3):
        write_batch(one_row(spark, "s", number, 1), str(tmp_path), f"0000000a-{number:08d}")
    files = LakeFiles(spark, str(tmp_path))
    olds = [str(path.relative_to(tmp_path)) for path in batches(tmp_path)]
    rows = spark.read.parquet(*[files.full(old) for old in olds])
    rows.write.parquet(files.full(f"{ASIDE}/c1"))
    # Without a note nothing has happened.
    finish(files)
    assert (offsets(spark, tmp_path), files.exists(ASIDE)) == ([0, 1, 2], False)
    rows.write.parquet(files.full(f"{ASIDE}/c1"))
    day = olds[0].rpartition("/")[0]
    note = {"aside": f"{ASIDE}/c1", "to": f"{day}/batch=c1", "from": olds}
    files.write(f"{ASIDE}/c1.json", json.dumps(note))
    # Killed in the middle of removing what was replaced.
    files.delete(olds[0])
    finish(files)
    assert offsets(spark, tmp_path) == [0, 1, 2]
    assert len(batches(tmp_path)) == 1


def test_old_days_are_removed_and_the_rest_stays(spark: SparkSession, tmp_path: Path) -> None:
    for day in (1, 2, 3):
        write_batch(one_row(spark, "7", day, day), str(tmp_path), f"0000000a-{day:08d}")
    assert retain(spark, str(tmp_path), 1, date(2026, 11, 3)) == 1
    assert offsets(spark, tmp_path) == [2, 3]
    streams = [row.stream for row in read_archive(spark, str(tmp_path)).collect()]
    assert streams == ["7", "7"]


def test_a_lost_checkpoint_and_an_empty_place_are_refused(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    with pytest.raises(ArchiveRefused, match="is not an archive"):
        read_archive(spark, str(tmp_path))
    write_batch(one_row(spark, name, 1, 1), str(tmp_path), "0000000a-00000000")
    with pytest.raises(ArchiveRefused, match="a second time"):
        archive(spark, str(tmp_path), {"uri": broker.uri, "stream": name})


def test_replayed_messages_are_what_they_were_in_order_and_at_the_rate(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    told = BasicProperties(
        content_type="text/plain", headers={"region": "eu"}, delivery_mode=2, message_id="m"
    )
    publish(broker, "", [(name, b"%d" % number) for number in range(300)], told)
    options = {"uri": broker.uri, "stream": name}
    assert archive(spark, str(tmp_path), options).awaitTermination(60)
    with broker.connection() as connection, connection.channel() as channel:
        channel.call(declare_queue(f"{name}-again", durable=True))
        rows = read_archive(spark, str(tmp_path)).where("offset >= 100")
        count = replay(rows, broker.amqp_uri, "", f"{name}-again", rate=2000)
        assert count == 200
        got = [channel.get(f"{name}-again", no_ack=True) for _ in range(200)]
        assert [message.body for message in got if message] == [b"%d" % n for n in range(100, 300)]
        assert got[0] is not None
        assert got[0].properties == told
        assert channel.get(f"{name}-again") is None
