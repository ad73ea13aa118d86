"""Bulk reads: what a stream's pages say, and the octets of its segments."""

import http.client
import socket
import time
import zlib
from pathlib import Path
from struct import Struct

import pytest

from tests.server.http.asking import (
    SHORT_SEGMENTS,
    STREAM,
    Pages,
    declared,
    problem,
    publish,
    serving,
)
from tests.server.opened import pika_connection

ENTRY = Struct("<QIIBBHIII")
BODIES = [b"%04d" % number * 25 for number in range(20)]


def bodies_of(pages: Pages, stream: str) -> list[bytes]:
    """Read as any HTTP client could: indexes and logs, checksums checked."""
    found = []
    for segment in pages.segments(stream):
        path = f"/api/streams/%2F/{stream}/segments/{segment['first_offset']}"
        index = pages.get(f"{path}/index").content
        log = pages.get(f"{path}/log").content
        assert len(index) == segment["index_bytes"]
        assert len(log) == segment["log_bytes"]
        assert index[:8] == b"PENSTIDX" and log[:8] == b"PENSTLOG"
        for at in range(32, len(index), 32):
            _, header, body, exchange, key, _, position, crc, _ = ENTRY.unpack_from(index, at)
            end = position + 10 + exchange + key + header + body
            assert zlib.crc32(log[position:end], zlib.crc32(index[at : at + 20])) == crc
            found.append(log[end - body : end])
    return found


def test_all_that_was_confirmed_can_be_read(kept: Pages) -> None:
    publish(declared(kept.broker, "s", SHORT_SEGMENTS), "s", BODIES)
    facts = kept.facts("/api/streams/%2F/s")
    assert facts["kind"] == "stream"
    assert facts["format_version"] == 1
    assert (facts["first_offset"], facts["safe_end_offset"]) == (0, 20)
    assert facts["retention"] == {"bytes_max": None, "age_ms_max": None, "segment_bytes": 500}
    assert facts["damage"] is None
    segments = kept.segments("s")
    assert len(segments) > 3
    assert [segment["first_offset"] for segment in segments[1:]] == [
        segment["end_offset"] for segment in segments[:-1]
    ]
    assert all(s["first_timestamp"] <= s["last_timestamp"] for s in segments)
    assert bodies_of(kept, "s") == BODIES


def test_segments_from_an_offset_on(kept: Pages) -> None:
    publish(declared(kept.broker, "s", SHORT_SEGMENTS), "s", BODIES)
    whole = kept.segments("s")
    some = kept.facts("/api/streams/%2F/s?from_offset=9")["segments"]
    assert some == [segment for segment in whole if segment["end_offset"] > 9]
    assert problem(kept.get("/api/streams/%2F/s?from_offset=x"), 400)


def test_ranges_of_a_segment(kept: Pages) -> None:
    publish(declared(kept.broker, "s", STREAM), "s", BODIES)
    path = "/api/streams/%2F/s/segments/0/log"
    whole = kept.get(path)
    assert whole.status_code == 200
    size = len(whole.content)
    part = kept.get(path, range="bytes=100-299")
    assert part.status_code == 206
    assert part.content == whole.content[100:300]
    assert part.headers["content-range"] == f"bytes 100-299/{size}"
    assert kept.get(path, range="bytes=-7").content == whole.content[-7:]
    assert kept.get(path, range=f"bytes=0-{size * 2}").content == whole.content
    beyond = kept.get(path, range=f"bytes={size}-")
    assert problem(beyond, 416)["size"] == size
    assert beyond.headers["content-range"] == f"bytes */{size}"
    head = kept.ask("HEAD", path)
    assert head.headers["content-length"] == str(size)
    assert head.content == b""


def test_one_connection_serves_many_parts(kept: Pages) -> None:
    publish(declared(kept.broker, "s", STREAM), "s", BODIES)
    path = "/api/streams/%2F/s/segments/0/log"
    whole = kept.get(path).content
    line = http.client.HTTPConnection("127.0.0.1", kept.broker.http_port, timeout=20)
    joined = b""
    for start in range(0, len(whole), 250):
        line.request(
            "GET",
            path,
            headers={
                "Range": f"bytes={start}-{start + 249}",
                "Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=",
            },
        )
        joined += line.getresponse().read()
    line.close()
    assert joined == whole


def test_a_stream_that_was_declared_again_is_another_one(kept: Pages) -> None:
    channel = declared(kept.broker, "s", STREAM)
    publish(channel, "s", BODIES)
    before = kept.facts("/api/streams/%2F/s")["id"]
    path = "/api/streams/%2F/s/segments/0/log"
    tag = kept.get(path).headers["etag"]
    assert kept.get(path, if_match=tag, range="bytes=0-9").status_code == 206
    assert kept.get(path, if_range=tag, range="bytes=0-9").status_code == 206
    publish(channel, "s", BODIES)
    assert kept.get(path).headers["etag"] == tag, "more of it is still the same segment"
    channel.queue_delete("s")
    channel.queue_declare("s", durable=True, arguments=STREAM)
    publish(channel, "s", BODIES[:3])
    assert kept.facts("/api/streams/%2F/s")["id"] != before
    assert problem(kept.get(path, if_match=tag, range="bytes=0-9"), 412)
    assert kept.get(path, if_range=tag, range="bytes=0-9").status_code == 200


def test_the_identity_of_a_stream_survives_a_restart(tmp_path: Path) -> None:
    facts = []
    for _ in range(2):
        with serving(tmp_path / "data") as broker:
            declared(broker, "s", STREAM)
            facts.append(Pages(broker).facts("/api/streams/%2F/s")["id"])
    assert facts[0] == facts[1]


def test_a_segment_that_retention_removed_is_gone_and_says_what_is_left(kept: Pages) -> None:
    arguments = {**SHORT_SEGMENTS, "x-max-length-bytes": 1_200}
    channel = declared(kept.broker, "s", arguments)
    publish(channel, "s", BODIES)
    first = kept.facts("/api/streams/%2F/s")["first_offset"]
    assert isinstance(first, int) and first > 0
    body = problem(kept.get("/api/streams/%2F/s/segments/0/log"), 410)
    assert body["error"] == "gone"
    assert body["first_offset"] == first
    assert "what_to_do" in body
    assert kept.segments("s")[0]["first_offset"] == first


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/streams/%2F/s/segments/1/log", 404),
        ("/api/streams/%2F/s/segments/500/index", 404),
        ("/api/streams/%2F/s/segments/-1/log", 400),
        ("/api/streams/%2F/s/segments/x/log", 400),
        ("/api/streams/%2F/s/segments/0/body", 404),
        ("/api/streams/%2F/q", 404),
        ("/api/streams/%2F/none", 404),
        ("/api/streams/none", 404),
        ("/api/streams/none/s", 404),
        ("/api/streams/%2F/s/offset", 400),
        ("/api/streams/%2F/s/offset?timestamp=-3", 400),
        ("/api/streams/%2F/s/", 404),
        ("/no/such/path", 404),
    ],
)
def test_what_is_not_there_is_said(pages: Pages, path: str, status: int) -> None:
    channel = declared(pages.broker, "s", STREAM)
    channel.queue_declare("q")
    publish(channel, "s", BODIES)
    problem(pages.get(path), status)


def test_a_method_that_a_page_does_not_have(pages: Pages) -> None:
    problem(pages.ask("POST", "/metrics"), 405)


def test_reading_needs_the_permission_to_read_the_stream(pages: Pages) -> None:
    publish(declared(pages.broker, "mine", STREAM), "mine", BODIES)
    publish(declared(pages.broker, "theirs", STREAM), "theirs", BODIES)
    pages.broker.add_user("reader", "p")
    reader = Pages(pages.broker, ("reader", "p"))
    assert problem(reader.get("/api/streams/%2F/mine"), 403)
    pages.broker.set_permissions("reader", "/", "", "", "^mine")
    assert reader.get("/api/streams/%2F/mine").status_code == 200
    assert reader.get("/api/streams/%2F/mine/segments/0/log").status_code == 200
    for path in ("", "/segments/0/log", "/offset?timestamp=0", "/cursors/c"):
        problem(reader.get(f"/api/streams/%2F/theirs{path}"), 403)
    problem(reader.ask("PUT", "/api/streams/%2F/theirs/cursors/c", b'{"offset": 1}'), 403)
    problem(reader.ask("DELETE", "/api/streams/%2F/theirs/cursors/c"), 403)


def test_a_partitioned_stream_is_one_thing(pages: Pages) -> None:
    channel = declared(pages.broker, "single", STREAM)
    channel.exchange_declare(
        "parts", "x-partitioned-stream", durable=True, arguments={"x-partitions": 3}
    )
    for number in range(30):
        channel.basic_publish("parts", f"key{number}", b"x")
    listed = pages.facts("/api/streams/%2F")["streams"]
    assert isinstance(listed, list)
    assert {(entry["name"], entry["kind"]) for entry in listed} == {
        ("single", "stream"),
        ("parts", "partitioned"),
    }
    partitions = pages.facts("/api/streams/%2F/parts")["partitions"]
    assert isinstance(partitions, list)
    assert [entry["name"] for entry in partitions] == ["parts-0", "parts-1", "parts-2"]
    assert sum(entry["safe_end_offset"] for entry in partitions) == 30
    offsets = pages.facts("/api/streams/%2F/parts/offset?timestamp=0")["offsets"]
    assert offsets == {"parts-0": 0, "parts-1": 0, "parts-2": 0}
    assert pages.get("/api/streams/%2F/parts-1").status_code == 200


def test_offsets_by_time(kept: Pages) -> None:
    channel = declared(kept.broker, "s", SHORT_SEGMENTS)
    publish(channel, "s", BODIES[:10])
    between = int(kept.segments("s")[-1]["last_timestamp"]) + 1
    deadline = time.monotonic() + 5
    while time.time() * 1000 <= between + 2:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    publish(channel, "s", BODIES[10:])
    page = "/api/streams/%2F/s/offset?timestamp="
    assert kept.facts(f"{page}0") == {"offset": 0}
    assert kept.facts(f"{page}{between}") == {"offset": 10}
    assert kept.facts(f"{page}{between + 10**9}") == {"offset": 20}


def test_a_cursor_is_put_read_moved_and_deleted(kept: Pages) -> None:
    channel = declared(kept.broker, "s", STREAM)
    publish(channel, "s", BODIES)
    path = "/api/streams/%2F/s/cursors/job%2F1"
    assert problem(kept.get(path), 404)
    put = kept.ask("PUT", path, b'{"offset": 5}')
    assert put.json() == {"name": "job/1", "offset": 5, "lag": 15}
    assert kept.ask("PUT", path, b'{"offset": 12}').json()["lag"] == 8
    assert kept.facts("/api/streams/%2F/s")["cursors"] == [
        {"name": "job/1", "offset": 12, "lag": 8}
    ]
    # A consumer with this cursor goes on from there.
    channel.basic_qos(prefetch_count=10)
    arguments: dict[str, object] = {"x-stream-cursor": "job/1"}
    for method, _, body in channel.consume("s", arguments=arguments, inactivity_timeout=5):
        assert method is not None
        assert body == BODIES[12]
        break
    channel.cancel()
    assert kept.ask("DELETE", path).status_code == 204
    assert problem(kept.ask("DELETE", path), 404)


@pytest.mark.parametrize(
    "body",
    [b"", b"5", b"[]", b'{"offset": "5"}', b'{"offset": true}', b'{"offset": 5, "x": 1}', b"\xff"],
)
def test_a_body_that_is_no_cursor_is_refused(pages: Pages, body: bytes) -> None:
    declared(pages.broker, "s", STREAM)
    problem(pages.ask("PUT", "/api/streams/%2F/s/cursors/c", body), 400)


def test_a_cursor_beyond_the_end_and_a_body_too_large_are_refused(pages: Pages) -> None:
    declared(pages.broker, "s", STREAM)
    path = "/api/streams/%2F/s/cursors/c"
    problem(pages.ask("PUT", path, b'{"offset": 1}'), 400)
    problem(pages.ask("PUT", path, b" " * 70_000), 413)


def test_a_large_segment_goes_to_a_slow_reader_whole(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as broker:
        pages = Pages(broker)
        body = bytes(range(256)) * 4096
        publish(declared(broker, "s", STREAM), "s", [body] * 24)
        [segment] = pages.segments("s")
        whole = pages.get("/api/streams/%2F/s/segments/0/log").content
        assert len(whole) == segment["log_bytes"] > 24 * 2**20
        assert whole.count(body) == 24
        # A reader that leaves in the middle harms nobody.
        with socket.create_connection(("127.0.0.1", broker.http_port), 20) as raw:
            raw.sendall(
                b"GET /api/streams/%2F/s/segments/0/log HTTP/1.1\r\nHost: localhost\r\n"
                b"Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
            )
            assert raw.recv(12) == b"HTTP/1.1 200"
        assert pages.get("/health/live").status_code == 200


def test_names_with_any_octets(pages: Pages) -> None:
    channel = pika_connection(pages.broker.url).channel()
    name = "a/b c%\N{SNOWMAN}"
    channel.queue_declare(name, durable=True, arguments=STREAM)
    assert pages.facts("/api/streams/%2F/a%2Fb%20c%25%E2%98%83")["name"] == name
