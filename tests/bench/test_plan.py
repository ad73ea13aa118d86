import dataclasses
from pathlib import Path

import pytest

from bench import frames
from bench.cases import MODES, Case
from bench.plan import CHUNK_BYTES, IN_FLIGHT_MAX, load_plan, spread
from bench.publisher import build_chunks


@pytest.mark.parametrize("mode", MODES)
def test_a_plan_survives_its_file(mode: str, tmp_path: Path) -> None:
    plan = Case(mode, 100, 8).plan("127.0.0.1", 5672, "p")
    plan.save(tmp_path / "plan")
    assert load_plan(tmp_path / "plan") == plan


@pytest.mark.parametrize("pairs", [1, 8])
@pytest.mark.parametrize("mode", MODES)
def test_what_all_lanes_may_have_in_flight_stays_within_the_bound(mode: str, pairs: int) -> None:
    plan = Case(mode, 100, pairs).plan("127.0.0.1", 5672, "p")
    deliveries = sum(plan.lane_in_flight_max * lane.consumer_count for lane in plan.publishers)
    assert deliveries <= IN_FLIGHT_MAX


@pytest.mark.parametrize(("queues", "burst"), [(1, 16), (100, 16), (1000, 64)])
def test_the_chunks_of_a_spread_publisher_reach_every_queue(queues: int, burst: int) -> None:
    plan = spread("127.0.0.1", 5672, "p", queues, 100, burst)
    chunks = build_chunks(plan, plan.publishers[0])
    assert {chunk.messages for chunk in chunks} == {burst}
    everything = b"".join(chunk.data for chunk in chunks)
    for queue in plan.queues:
        assert frames.publish_method("", queue) in everything


def test_a_chunk_is_no_longer_than_one_write_and_holds_the_messages_it_claims() -> None:
    plan = dataclasses.replace(Case("transient", 1000, 1).plan("127.0.0.1", 5672, "p"))
    (chunk,) = build_chunks(plan, plan.publishers[0])
    one = frames.publish("", plan.queues[0], b"x" * 1000, persistent=False)
    assert chunk.data == one * chunk.messages
    assert chunk.due == chunk.messages
    assert len(chunk.data) <= CHUNK_BYTES


def test_only_a_durable_load_is_persistent_and_may_ask_for_a_queue_type() -> None:
    durable = Case("durable", 100, 1).plan("127.0.0.1", 5672, "p", "quorum")
    assert (durable.durable, durable.queue_type) == (True, "quorum")
    confirmed = Case("confirm", 100, 1).plan("127.0.0.1", 5672, "p")
    assert (confirmed.durable, confirmed.queue_type) == (False, "")
    (chunk,) = build_chunks(durable, durable.publishers[0])
    assert frames.publish("", durable.queues[0], b"x" * 100, persistent=True) in bytes(chunk.data)
