"""Wrong options are said in the driver, by name, with what to do; nothing here needs Spark's JVM."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.address import HttpAddress, resolve_secret
from penstock.spark.broker_streams import Stream
from penstock.spark.columns import COLUMNS
from penstock.spark.errors import OptionError
from penstock.spark.http_client import BrokerClient
from penstock.spark.offset_choice import read_choice, read_time
from penstock.spark.options import ReadOptions, read_options
from penstock.spark.row_filter import topic_expression
from penstock.spark.source import PenstockDataSource

URI = "http://broker:15672/"
STREAM = Stream("orders", "orders", 0, "id", 10, 20)


def options(**given: Any) -> ReadOptions:
    return read_options({"uri": URI, "stream": "orders", **given})


def test_an_address_names_host_port_virtual_host_and_login() -> None:
    read = options(uri="https://me:s%2Fx@one:1/a%2Fb, https://two/a%2Fb").access
    assert read.addresses == (HttpAddress("one", 1, True), HttpAddress("two", 15_672, True))
    assert (read.vhost, read.user, read.password) == ("a/b", "me", "s/x")
    assert "s/x" not in repr(read)


def test_names_of_options_are_compared_without_regard_to_case() -> None:
    read = read_options({"URI": URI, "STREAM": "a, b", "maxmessagespertrigger": "7"})
    assert read.subscription.names == ("a", "b")
    assert read.messages_max == 7


def test_a_secret_is_looked_up_where_it_is_used(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hidden\n")
    read = options(user="me", password=f"file:{file}").access
    assert read.password == f"file:{file}"
    assert b"hidden" not in pickle.dumps(read)
    assert resolve_secret("password", read.password) == "hidden"


@pytest.mark.parametrize(
    ("given", "option", "said"),
    [
        ({"uri": "amqp://broker"}, "uri", "is an AMQP address"),
        ({"uri": "http://a/x,http://b/y"}, "uri", "different virtual hosts"),
        ({"uri": "http://a/x/y"}, "uri", "more than a virtual host"),
        ({"uri": "http://a:port/"}, "uri", "cannot parse"),
        ({"uri": "http://u:p@a/", "user": "v"}, "user", "also contains a login"),
        ({"password": "env:PENSTOCK_NO_SUCH_NAME"}, "password", "PENSTOCK_NO_SUCH_NAME"),
        ({"password": "file:/no/such/file"}, "password", "/no/such/file"),
        ({"tlsCaFile": "x.pem"}, "uri", "no address is https"),
        ({"startingOffset": "1"}, "startingOffset", "Did you mean 'startingOffsets'"),
        ({"streamPattern": "x"}, "streamPattern", "cannot be combined with 'stream'"),
        ({"queue": "q", "owner": "o"}, "stream", "cannot be combined with 'queue'"),
        ({"owner": "o"}, "owner", "applies to queues only"),
        ({"startingOffsets": "soon"}, "startingOffsets", "cannot parse 'soon'"),
        ({"startingOffsets": "{"}, "startingOffsets", "not valid JSON"),
        ({"startingOffsets": '{"a": 1.5}'}, "startingOffsets", "not a valid offset"),
        (
            {"startingOffsets": "1", "startingTimestamp": "2"},
            "startingTimestamp",
            "cannot be combined",
        ),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp", "cannot parse"),
        ({"endingOffsets": "earliest"}, "endingOffsets", "is empty"),
        ({"maxMessagesPerTrigger": "0"}, "maxMessagesPerTrigger", "not a positive number"),
        ({"maxBytesPerTrigger": "1x"}, "maxBytesPerTrigger", "not a valid size"),
        ({"maxBytesPerTrigger": "0m"}, "maxBytesPerTrigger", "not a valid size"),
        ({"firstContactTimeout": "soon"}, "firstContactTimeout", "not a valid duration"),
        ({"minPartitions": "-1"}, "minPartitions", "not a positive number"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss", "neither true nor false"),
        ({"retryTimeout": "long"}, "retryTimeout", "not a valid duration"),
        ({"columns": "body,size"}, "columns", "unknown column 'size'"),
        ({"columns": "body,body"}, "columns", "listed twice"),
        ({"columns": "body,BODY"}, "columns", "listed twice"),
        ({"columns": "+body,size"}, "columns", "unknown column 'size'"),
        ({"columns": "+"}, "columns", "the list of columns is empty"),
        ({"columns": "*,body"}, "columns", "unknown column '*'"),
        ({"columns": " "}, "columns", "empty"),
        ({"filter": "body like 'x'"}, "filter", "cannot parse"),
        ({"asyncProgressTrackingEnabled": "true"}, "asyncProgressTrackingEnabled", "Omit it"),
    ],
)
def test_a_wrong_option_is_named_with_what_to_do(
    given: dict[str, str], option: str, said: str
) -> None:
    with pytest.raises(OptionError) as caught:
        options(**given)
    assert caught.value.option == option
    assert said in str(caught.value)
    # Errors cross from Spark's processes pickled or as text.
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_heads_are_decoded_for_those_who_ask() -> None:
    usual = ("stream", "partition", "offset", "timestamp", "exchange", "routing_key", "body")
    assert options().columns == usual
    assert options(columns="+headers, id").columns == (*usual[:-1], "headers", "body", "id")
    assert options(columns="id,body").columns == ("id", "body")
    assert options(columns="ID,Routing_Key").columns == ("id", "routing_key")
    assert options(columns="+Headers").columns == (*usual[:-1], "headers", "body")
    assert options(columns="*").columns == tuple(COLUMNS)
    queue = read_options({"uri": URI, "queue": "orders", "owner": "me"})
    assert queue.columns == (*usual, "redelivered")


@pytest.mark.parametrize(
    ("text", "octets"),
    [
        ("1048576", 1 << 20),
        ("512k", 512 << 10),
        ("100m", 100 << 20),
        ("100 MB", 100 << 20),
        ("2GiB", 2 << 30),
        ("1t", 1 << 40),
        ("7b", 7),
    ],
)
def test_sizes_are_written_as_in_the_settings_of_spark(text: str, octets: int) -> None:
    assert options(maxBytesPerTrigger=text).bytes_max == octets


def test_a_batch_refuses_the_option_that_was_given() -> None:
    with pytest.raises(OptionError, match="option 'maxBytesPerTrigger'"):
        options(maxBytesPerTrigger="100m").for_batch()


def test_something_to_read_and_where_are_needed() -> None:
    with pytest.raises(OptionError, match="option 'uri': it is missing"):
        read_options({"stream": "orders"})
    with pytest.raises(OptionError, match="no stream or queue is given"):
        read_options({"uri": URI})
    with pytest.raises(OptionError, match="option 'owner': it is missing"):
        read_options({"uri": URI, "queue": "orders"})


def test_what_belongs_to_streaming_is_refused_in_a_batch_and_the_other_way_round() -> None:
    queue = read_options({"uri": URI, "queue": "orders", "owner": "me"})
    for wrong in (queue, options(maxBytesPerTrigger="1"), options(cursor="c")):
        with pytest.raises(OptionError):
            wrong.for_batch()
    for wrong in (options(endingOffsets="5"), options(filterPushdown="true")):
        with pytest.raises(OptionError):
            wrong.for_streaming()
    assert options().for_batch() == options().for_streaming() == options()


@pytest.mark.parametrize(
    ("text", "offset"), [("earliest", 10), ("latest", 20), ("next", 20), ("last", 19), ("15", 15)]
)
def test_a_choice_is_an_offset_in_each_stream(text: str, offset: int) -> None:
    client = BrokerClient(options().access)
    assert read_choice("startingOffsets", text).in_stream(client, STREAM, True) == offset
    each = read_choice("startingOffsets", f'{{"orders": "{text}"}}')
    assert each.in_stream(client, STREAM, True) == offset


def test_an_offset_out_of_range_is_refused_or_moved_to_what_is_left() -> None:
    client = BrokerClient(options().access)
    low, high = (read_choice("startingOffsets", text) for text in ("9", "21"))
    with pytest.raises(OptionError, match="has the offsets 10 to 19; the next one is 20"):
        low.in_stream(client, STREAM, True)
    assert low.in_stream(client, STREAM, False) == 10
    with pytest.raises(OptionError, match="offset 21 is out of range"):
        high.in_stream(client, STREAM, False)


def test_offsets_by_name_must_name_the_streams_that_are_read() -> None:
    client = BrokerClient(options().access)
    other = read_choice("startingOffsets", '{"other": 1}')
    with pytest.raises(OptionError, match="has no entry for stream 'orders'"):
        other.in_stream(client, STREAM, True)
    with pytest.raises(OptionError, match="'other' is not among the streams"):
        other.check_names({"orders": STREAM})


def test_times_are_milliseconds_or_dates() -> None:
    assert read_time("startingTimestamp", "1700000000123").timestamp_ms == 1_700_000_000_123
    told = read_time("startingTimestamp", "2023-11-14T22:13:20+00:00")
    assert told.timestamp_ms == 1_700_000_000_000
    assert read_choice("startingOffsets", "interval:7D").interval_ms == 7 * 86_400_000


def test_a_topic_pattern_becomes_an_expression() -> None:
    assert topic_expression("a.*.#") == r"\A\.a\.[^.]*(?:\.[^.]*)*\z"


def test_the_source_says_a_wrong_option_before_it_asks_anybody() -> None:
    source = PenstockDataSource({"uri": "http://127.0.0.1:1/", "stream": "x", "colums": "body"})
    with pytest.raises(OptionError, match="Did you mean 'columns'"):
        source.schema()
