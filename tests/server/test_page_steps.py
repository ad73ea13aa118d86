"""Pages over ten thousand queues stop neither the broker's loop nor its interpreter for long.

Steps on the loop, and what the HTTP server's threads do between two rests, are measured in CPU time
of their thread, so that other programs do not matter, and as shares of the whole work, so that the
speed of the machine does not. The least of some repeats is taken. `python -m bench.management --parts
pages` has the times.
"""

import gc
import time
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

import pytest
from prometheus_client.exposition import generate_latest

from penstock.broker.topology import BindQueue, DeclareExchange, DeclareQueue
from penstock.node.node import Node
from penstock.server.definition_files import exported_in_steps
from penstock.server.http.api.json_pieces import json_in_pieces
from penstock.server.http.api.listing import MadeRow, listed
from penstock.server.http.api.pace import Pace
from penstock.server.http.api.peek import HELD_COUNT, held_entries
from penstock.server.http.api.totals import totals_of
from penstock.server.http.login import Caller
from penstock.server.http.metric_families import object_families, written
from penstock.server.http.object_figures import QueueFigures, Wanted
from penstock.server.http.survey import Figures, Surveyor
from penstock.server.launch import GC_THRESHOLDS
from penstock.wire.amqp091 import methods_generated as m
from tests.seeds.doubles import House

T = TypeVar("T")

QUEUES = 10_000
REPEATS = 3
# The share of the longest step. A page takes up to 0.1 s on the loop in the pure build.
SHARE_MAX = 0.12
# Objects that one collection of garbage may look at: up to 0.15 ms for a thousand.
COLLECTED_MAX = 20_000


@pytest.fixture(scope="module")
def node() -> Node:
    node = House().node
    node.apply_to_vhost("/", DeclareExchange("many", "direct"), 0)
    for number in range(QUEUES):
        # Not in the order of their names.
        name = f"q{number * 7919 % QUEUES}"
        node.apply_to_vhost("/", DeclareQueue(name, durable=True), 0)
        node.apply_to_vhost("/", BindQueue(name, "many", name), 0)
    return node


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Those of the process that runs the tests are not what is measured."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Restless(Pace):
    """Measures instead of resting. Held by one test."""

    def __init__(self) -> None:
        super().__init__()
        self.spent: list[float] = []
        self._began = time.thread_time()

    def rest_if_due(self) -> None:
        self.spent.append(time.thread_time() - self._began)
        self._began = time.thread_time()

    def longest_share(self) -> float:
        return max(self.spent) / sum(self.spent)


def longest_step(begin: Callable[[], Generator[None, None, object]]) -> float:
    def once() -> float:
        pace = Restless()
        steps = begin()
        # Somebody else frees what was found.
        found: list[object] = []
        while not found:
            try:
                next(steps)
            except StopIteration as end:
                found.append(end.value)
            pace.rest_if_due()
        return pace.longest_share()

    return min(once() for _ in range(REPEATS))


def longest_work(work: Callable[[T, Pace], object], prepare: Callable[[], T]) -> float:
    """Between two rests."""

    def once() -> float:
        prepared = prepare()
        pace = Restless()
        work(prepared, pace)
        pace.rest_if_due()
        return pace.longest_share()

    return min(once() for _ in range(REPEATS))


@pytest.mark.usefixtures("no_collections")
def test_no_step_of_the_loop_is_long(node: Node) -> None:
    caller = Caller("guest", ("administrator",))
    found = {
        "definitions": longest_step(lambda: exported_in_steps(node)),
        "metrics": longest_step(lambda: Surveyor().survey(node, Wanted(queues=True))),
        "totals": longest_step(lambda: totals_of(node, caller)),
    }
    assert max(found.values()) < SHARE_MAX, found


@pytest.mark.usefixtures("no_collections")
def test_what_one_connection_holds_is_not_gathered_in_one_step() -> None:
    """Six steps, or a few more."""
    house = House()
    peer = house.client()
    peer.call(m.QueueDeclare("q"))
    peer.publish("q", *[b"x"] * 6 * HELD_COUNT)
    peer.call(m.BasicConsume("q", "tag"))
    queue = house.node.state.vhost("/").queues["q"]
    assert queue.unacked_count == 6 * HELD_COUNT
    assert longest_step(lambda: held_entries(house.node, queue)) < 0.35


@pytest.mark.usefixtures("no_collections")
def test_answers_are_made_with_rests() -> None:
    found = {
        "definitions": longest_work(json_in_pieces, many_definitions),
        "queues": longest_work(
            lambda records, pace: listed(records, {"sort": "name"}, pace),
            lambda: [MadeRow({"name": f"q{number}", "a": {}}) for number in range(2 * QUEUES)],
        ),
        "metrics": longest_work(
            lambda figures, pace: written(
                object_families(figures, frozenset({"queue_coarse_metrics"}), False, pace),
                generate_latest,
                pace,
            ),
            many_figures,
        ),
    }
    assert max(found.values()) < SHARE_MAX, found


def many_definitions() -> dict[str, object]:
    return {"queues": [{"name": "q", "arguments": {}}] * 5 * QUEUES}


def many_figures() -> Figures:
    return Figures(
        per_queue=[
            QueueFigures("/", f"q{number}", 1, 2, 3, 1, 9, 8, 7, 6, []) for number in range(QUEUES)
        ]
    )


def test_a_list_is_emptied_with_rests() -> None:
    pace = Restless()
    things = [[number] for number in range(1_000)]
    pace.free(things)
    assert not things
    assert len(pace.spent) >= 10


def test_a_collection_of_garbage_looks_at_few_objects() -> None:
    """However many are made and kept. Counted: it stops all threads for as long as they take."""
    looked_at: list[int] = []
    generations: list[int] = []

    def count(phase: str, facts: dict[str, int]) -> None:
        if phase == "start":
            generations.append(facts["generation"])
            looked_at.append(
                sum(len(gc.get_objects(young)) for young in range(facts["generation"] + 1))
            )

    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.callbacks.append(count)
    try:
        kept = [[number] for number in range(300_000)]
    finally:
        gc.callbacks.remove(count)
        gc.set_threshold(*before)
    assert len(kept) == 300_000
    assert looked_at, "there were collections"
    assert set(generations) <= {0, 1}, "a full one would look at everything"
    assert max(looked_at) <= COLLECTED_MAX
