"""Orders in, priced orders out: read a stream, join a table, publish the result, each once.

    python examples/spark/enrich_and_publish.py --uri http://guest:guest@localhost:15672/ \
        --stream orders --exchange priced --prices prices.json --checkpoint /var/tmp/priced

An order is JSON: {"item": "apple", "count": 3}. The price list is a file of lines
{"item": "apple", "price": 0.5}. What goes out has the routing key `priced.ITEM`. The checkpoint
remembers what was read, and the broker which micro-batches it has published: started again after
any crash, the query publishes nothing twice.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from penstock.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def priced(orders: DataFrame, prices: DataFrame) -> DataFrame:
    """Messages of priced orders; those of unknown items have no price."""
    order = f.from_json(f.col("body").cast("string"), "item string, count bigint")
    rows = orders.select(order.alias("order"), "id").select("order.*", f.col("id").alias("source"))
    joined = rows.join(f.broadcast(prices), "item", "left")
    total = (f.col("count") * f.col("price")).alias("total")
    return joined.select(
        f.concat(f.lit("priced."), f.col("item")).alias("routing_key"),
        f.to_json(f.struct("item", "count", "price", total)).alias("body"),
        # Tells a reader which message of the stream this one was made of.
        f.col("source").alias("correlation_id"),
        f.lit("application/json").alias("content_type"),
        f.lit(2).alias("delivery_mode"),
    )


def start(
    spark: SparkSession,
    uri: str,
    stream: str,
    exchange: str,
    prices: DataFrame,
    checkpoint: str,
    every: str | None,
) -> StreamingQuery:
    orders = (
        spark.readStream.format("penstock")
        .option("uri", uri)
        .option("stream", stream)
        .option("startingOffsets", "earliest")
        .option("columns", "body,id")
        .load()
    )
    writer = (
        priced(orders, prices)
        .writeStream.format("penstock")
        .option("uri", uri)
        .option("exchange", exchange)
        .option("checkpointLocation", checkpoint)
    )
    chosen = writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)
    return chosen.start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uri", default="http://guest:guest@localhost:15672/")
    parser.add_argument("--stream", required=True)
    parser.add_argument("--exchange", required=True)
    parser.add_argument("--prices", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--every", default="2 seconds")
    chosen = parser.parse_args()
    spark = spark_session(app_name="enrich and publish")
    prices = spark.read.schema("item string, price double").json(chosen.prices)
    start(
        spark,
        chosen.uri,
        chosen.stream,
        chosen.exchange,
        prices,
        chosen.checkpoint,
        chosen.every,
    ).awaitTermination()


if __name__ == "__main__":
    main()
