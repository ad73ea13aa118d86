"""Mixed traffic: what it is made of, and that it is counted right."""

import os
import random
import struct

import pytest

from bench import frames
from bench.cases import MIXED_SIZE, Case
from bench.loader import LoadFailedError, Sample, measure
from bench.mixed import (
    BODY_BYTES_MAX,
    BODY_BYTES_MIN,
    TOPIC_BINDINGS,
    build_pool,
    matches,
    mixed,
)
from bench.mixed_consumer import message_id, walk
from bench.mixed_publisher import build_templates
from bench.plan import CHUNK_BYTES
from tests.bench.fake_broker import FakeBroker

HOST = "127.0.0.1"
CASE = Case("mixed", MIXED_SIZE, 1)


def measured(broker: FakeBroker, seconds: float = 0.3) -> Sample:
    return measure(
        CASE.plan(HOST, broker.port, "m"),
        os.getpid(),
        seconds=seconds,
        warm_up=0.1,
        drain_seconds_max=10,
        processes=CASE.processes,
    )


@pytest.mark.parametrize(
    ("pattern", "key", "wanted"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("*.b", "a.b", True),
        ("*", "a.b", False),
        ("#", "", True),
        ("#.b", "b", True),
        ("#.b", "a.a.b", True),
        ("a.#", "a", True),
        ("a.#.b", "a.c", False),
    ],
)
def test_topic_patterns_match_as_the_specification_says(
    pattern: str, key: str, wanted: bool
) -> None:
    assert matches(pattern.split("."), key.split(".") if key else []) is wanted


def test_the_pool_is_the_same_each_time_and_as_varied_as_promised() -> None:
    plan = mixed(HOST, 5672, "m", 1)
    pool = build_pool(plan, 0)
    assert [message.publish for message in build_pool(plan, 0)] == [m.publish for m in pool]
    sizes = {len(message.body) for message in pool}
    assert BODY_BYTES_MIN <= min(sizes) < 100
    assert 1900 < max(sizes) <= BODY_BYTES_MAX
    assert sum(binding.kind == "topic" for binding in plan.bindings) == TOPIC_BINDINGS
    widths = [len(message.queues) for message in pool]
    assert (min(widths), max(widths)) == (1, 4)
    assert set(plan.queues) == set[str]().union(*(message.queues for message in pool))


def test_durable_mixed_traffic_is_the_same_but_persistent_and_in_durable_queues() -> None:
    plain, kept = (
        Case(mode, MIXED_SIZE, 1).plan(HOST, 5672, "m") for mode in ("mixed", "mixed-durable")
    )
    assert (plain.durable, kept.durable) == (False, True)
    assert plain.queues == kept.queues
    for one, other in zip(build_pool(plain, 0), build_pool(kept, 0), strict=True):
        differing = [a + b for a, b in zip(one.publish, other.publish, strict=True) if a != b]
        assert differing == [1 + 2]
        assert one.queues == other.queues


def test_every_turn_gives_every_message_another_id_and_changes_nothing_else() -> None:
    plan = mixed(HOST, 5672, "m", 1)
    pool = build_pool(plan, 0)
    templates = build_templates(plan, pool)
    assert sum(template.due for template in templates) == sum(len(m.queues) for m in pool)
    seen = set()
    for turn in (0, 1, 0xABCDEF):
        for template in templates[:3]:
            chunk = template.chunk(turn)
            assert len(chunk.data) <= CHUNK_BYTES
            ids = [message_id(header) for header in headers_in(bytes(chunk.data))]
            assert len(ids) == chunk.messages
            assert all(name.endswith(f"-{turn:08x}") for name in ids)
            seen.update(ids)
    assert len(seen) == 3 * sum(len(template.turn_offsets) for template in templates[:3])


def headers_in(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        kind, _, size = struct.unpack_from(">BHI", data, at)
        if kind == frames.FRAME_HEADER:
            found.append(data[at + 7 : at + 7 + size])
        at += size + frames.FRAME_OVERHEAD
    assert at == len(data)
    return found


def test_walking_finds_whole_deliveries_wherever_the_data_are_cut() -> None:
    dice = random.Random(3)
    deliveries = []
    for tag in range(1, 6):
        arguments = frames.short_string("000001") + struct.pack(">QB", tag, 0) + b"\0\0"
        method = frames.method(1, frames.BASIC_DELIVER, arguments)
        deliveries.append(method + frames.content(dice.randbytes(tag * 7), persistent=False))
    data = memoryview(b"".join(deliveries))
    ends = [sum(map(len, deliveries[:count])) for count in range(6)]
    for cut in range(len(data) + 1):
        whole = max(count for count in range(6) if ends[count] <= cut)
        last = ends[whole - 1] if whole else 0
        assert walk(data[:cut]) == (whole, last, ends[whole])


def test_a_mixed_load_is_counted_by_deliveries_and_cleared_away() -> None:
    with FakeBroker() as broker:
        sample = measured(broker)
        assert broker.queues == set()
    assert sample.published > 0
    assert sample.confirmed > 0
    assert sample.delivered > sample.published


def test_a_lost_message_refuses_a_mixed_sample() -> None:
    with FakeBroker(skipping_tag=200) as broker, pytest.raises(LoadFailedError, match="tag says"):
        measured(broker, seconds=5)


def test_a_message_in_a_queue_where_it_has_no_business_refuses_the_sample() -> None:
    with (
        FakeBroker(misrouting=True) as broker,
        pytest.raises(LoadFailedError, match="was not routed to"),
    ):
        measured(broker, seconds=5)
