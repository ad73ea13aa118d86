"""Settling: exactly the deliveries that are meant, run by run, in order, and nothing when a tag is unknown."""

from __future__ import annotations

import pytest

from penstock.broker.entry import NO_HOLDER, QueueEntry
from penstock.broker.queues.queue import Queue
from penstock.dialects.amqp091.acknowledge import (
    Outcome,
    StagedTags,
    check_tag,
    requeue_all,
    settle,
    stage_tag,
)
from penstock.dialects.amqp091.deliveries import Deliveries
from penstock.dialects.translator import Translator
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.reply_codes_generated import PRECONDITION_FAILED
from tests.broker.queues.doubles import RecordingOwner, make_queue, put, ready_bodies
from tests.dialects.amqp091.doubles import OpenChannel, RecordingReceiver, ToldQueue

HOLDER = 5
NOW = 3


class Scene:
    """A channel that holds deliveries of two queues. Held by one test."""

    def __init__(self, pattern: str) -> None:
        """`aab-a`: whose delivery each tag is, from tag 1 on; `-` is one that needs no settling."""
        self.deliveries = Deliveries(1, OpenChannel().channel.wire, Translator(), HOLDER)
        self.queues: dict[str, Queue] = {}
        self.owners: dict[str, RecordingOwner] = {}
        self.receivers: dict[str, RecordingReceiver] = {}
        self.entries: dict[int, QueueEntry] = {}
        for name in sorted(set(pattern) - {"-"}):
            self.queues[name], self.owners[name] = make_queue({"x-dead-letter-exchange": "dead"})
            self.receivers[name] = RecordingReceiver(self.queues[name])
        for tag, name in enumerate(pattern, 1):
            self.deliveries.tag = tag
            if name != "-":
                put(self.queues[name], b"%d" % tag)
                entry = self.queues[name].get(0, HOLDER)
                assert entry is not None
                self.entries[tag] = entry
                self.deliveries.unacknowledged.add(tag, entry, self.receivers[name])
        for owner in self.owners.values():
            owner.touched.clear()

    def settle(
        self, tag: int, *, multiple: bool = False, outcome: Outcome = Outcome.ACKNOWLEDGED
    ) -> None:
        settle(self.deliveries, tag, multiple, outcome, NOW)

    @property
    def left(self) -> list[int]:
        """Tags that are outstanding."""
        waiting = self.deliveries.unacknowledged
        found = [tag for tag in range(self.deliveries.tag + 2) if waiting.holds(tag)]
        assert waiting.count == len(found)
        return found

    def runs(self, name: str) -> list[int]:
        return self.receivers[name].runs


def test_one_acknowledgement_settles_one_delivery() -> None:
    scene = Scene("aaa")
    scene.settle(2)
    assert scene.left == [1, 3]
    queue = scene.queues["a"]
    assert (queue.unacked_count, queue.acknowledged_total) == (2, 1)
    assert scene.runs("a") == [1]
    assert [entry.holder for entry in scene.entries.values()] == [HOLDER, NO_HOLDER, HOLDER]


@pytest.mark.parametrize(
    ("pattern", "tag", "runs"),
    [
        ("aaaa", 4, {"a": [4]}),
        ("aaaa", 3, {"a": [3]}),
        ("aaaa", 0, {"a": [4]}),
        ("aabba", 5, {"a": [2, 1], "b": [2]}),
        ("aabba", 3, {"a": [2], "b": [1]}),
        ("-aa--ab-", 6, {"a": [2, 1]}),
        ("-aa--ab-", 0, {"a": [2, 1], "b": [1]}),
        ("abab", 4, {"a": [1, 1], "b": [1, 1]}),
    ],
)
def test_a_multiple_acknowledgement_settles_run_by_run_up_to_its_tag(
    pattern: str, tag: int, runs: dict[str, list[int]]
) -> None:
    scene = Scene(pattern)
    last = tag or len(pattern)
    wanted = [known for known in scene.entries if known > last]
    scene.settle(tag, multiple=True)
    assert scene.left == wanted
    assert {name: scene.runs(name) for name in runs} == runs
    for name, queue in scene.queues.items():
        assert queue.acknowledged_total == sum(runs.get(name, []))


def test_a_multiple_acknowledgement_goes_over_what_was_settled_before() -> None:
    scene = Scene("aaaaaa")
    scene.settle(1)
    scene.settle(3)
    scene.settle(5, multiple=True)
    assert scene.left == [6]
    assert scene.runs("a") == [1, 1, 1, 2]
    assert scene.queues["a"].acknowledged_total == 5


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize(("tag", "multiple"), [(0, False), (3, False), (4, True), (9, False)])
def test_an_unknown_tag_closes_the_channel_and_settles_nothing(
    tag: int, multiple: bool, outcome: Outcome
) -> None:
    scene = Scene("aa-")
    with pytest.raises(ChannelFault, match=f"unknown delivery tag {tag}") as raised:
        scene.settle(tag, multiple=multiple, outcome=outcome)
    assert raised.value.code == PRECONDITION_FAILED
    assert scene.left == [1, 2]
    assert scene.runs("a") == []


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("multiple", [False, True])
def test_a_tag_is_settled_once(outcome: Outcome, multiple: bool) -> None:
    scene = Scene("aaa")
    scene.settle(2, multiple=multiple, outcome=outcome)
    with pytest.raises(ChannelFault):
        scene.settle(2, outcome=outcome)
    assert sum(scene.runs("a")) == (2 if multiple else 1)


def test_all_that_there_is_may_be_nothing() -> None:
    scene = Scene("--")
    scene.settle(0, multiple=True)
    with pytest.raises(ChannelFault):
        check_tag(scene.deliveries, 0, False)


@pytest.mark.parametrize(("multiple", "dead"), [(False, [3]), (True, [1, 3])])
def test_what_is_rejected_dies_and_gives_its_credit_back(multiple: bool, dead: list[int]) -> None:
    scene = Scene("abaa")
    scene.settle(3, multiple=multiple, outcome=Outcome.REJECTED)
    assert scene.owners["a"].deaths == [(b"%d" % tag, "rejected") for tag in dead]
    assert scene.runs("a") == [1] * len(dead)
    assert scene.runs("b") == ([1] if multiple else [])
    assert scene.left == ([4] if multiple else [1, 2, 4])
    assert scene.queues["a"].acknowledged_total == 0


@pytest.mark.parametrize("tag", [4, 5, 0])
def test_what_is_requeued_goes_back_queue_by_queue_in_its_old_order(tag: int) -> None:
    scene = Scene("aba-ab")
    for name in ("a", "b"):
        put(scene.queues[name], b"later")
    wanted = {known: entry for known, entry in scene.entries.items() if known <= (tag or 9)}
    if tag == 4:
        with pytest.raises(ChannelFault):
            scene.settle(tag, multiple=True, outcome=Outcome.REQUEUED)
        return
    scene.settle(tag, multiple=True, outcome=Outcome.REQUEUED)
    for name in ("a", "b"):
        queue = scene.queues[name]
        back = [
            entry.message.body
            for known, entry in wanted.items()
            if scene.receivers[name] is scene.receivers["aba-ab"[known - 1]]
        ]
        assert ready_bodies(queue) == [*back, b"later"]
        assert sum(scene.runs(name)) == len(back)
    for entry in wanted.values():
        assert (entry.is_redelivered, entry.delivery_count, entry.holder) == (True, 1, NO_HOLDER)


def test_each_queue_gets_its_entries_back_in_order() -> None:
    scene = Scene("")
    told = [ToldQueue(), ToldQueue()]
    entries: list[QueueEntry] = []
    for tag in range(1, 7):
        queue = told[tag % 2].queue
        put(queue, b"%d" % tag)
        entry = queue.get(0, HOLDER)
        assert entry is not None
        entries.append(entry)
        scene.deliveries.unacknowledged.add(tag, entry, RecordingReceiver(queue))
    scene.settle(0, multiple=True, outcome=Outcome.REQUEUED)
    assert told[1].returned == entries[0::2]
    assert told[0].returned == entries[1::2]


def test_one_that_is_requeued_goes_before_what_came_after_it() -> None:
    scene = Scene("aaa")
    scene.settle(3, outcome=Outcome.REQUEUED)
    scene.settle(1, outcome=Outcome.REQUEUED)
    assert ready_bodies(scene.queues["a"]) == [b"1", b"3"]
    assert scene.left == [2]


def test_consumers_have_their_credit_again_before_their_queue_has_its_messages() -> None:
    """Or the queue would find nobody to give them to, and be asked a second time."""
    order: list[str] = []

    class Noting(RecordingReceiver):
        def settled(self, count: int) -> None:
            order.append(f"settled with {self.queue.message_count} ready")

    scene = Scene("")
    queue, _ = make_queue()
    put(queue, b"1")
    entry = queue.get(0, HOLDER)
    assert entry is not None
    scene.deliveries.unacknowledged.add(1, entry, Noting(queue))
    scene.settle(1, outcome=Outcome.REQUEUED)
    assert order == ["settled with 0 ready"]
    assert queue.message_count == 1


def test_a_channel_that_ends_gives_everything_back() -> None:
    scene = Scene("ab-a")
    scene.settle(1)
    requeue_all(scene.deliveries, NOW)
    assert scene.left == []
    assert ready_bodies(scene.queues["a"]) == [b"4"]
    assert ready_bodies(scene.queues["b"]) == [b"2"]


def test_what_waits_for_a_commit_is_not_recovered() -> None:
    scene = Scene("aaaaa")
    staged = StagedTags()
    stage_tag(scene.deliveries, staged, 2, True)
    stage_tag(scene.deliveries, staged, 4, False)
    requeue_all(scene.deliveries, NOW, staged)
    assert scene.left == [1, 2, 4]
    assert ready_bodies(scene.queues["a"]) == [b"3", b"5"]
    assert scene.runs("a") == [1, 1]


def test_a_settlement_in_a_transaction_is_checked_when_it_comes() -> None:
    scene = Scene("aaaa")
    staged = StagedTags()
    stage_tag(scene.deliveries, staged, 3, False)
    for tag, multiple in [(3, False), (9, False), (0, False), (9, True)]:
        with pytest.raises(ChannelFault, match=f"unknown delivery tag {tag}"):
            stage_tag(scene.deliveries, staged, tag, multiple)
    stage_tag(scene.deliveries, staged, 2, True)
    assert [staged.holds(tag) for tag in range(1, 5)] == [True, True, True, False]
    with pytest.raises(ChannelFault, match="unknown delivery tag 1"):
        stage_tag(scene.deliveries, staged, 1, False)
    assert scene.left == [1, 2, 3, 4], "nothing is settled before the commit"


def test_all_in_a_transaction_is_all_that_was_delivered_by_then() -> None:
    scene = Scene("aaa")
    staged = StagedTags()
    stage_tag(scene.deliveries, staged, 0, True)
    assert [staged.holds(tag) for tag in range(1, 5)] == [True, True, True, False]
    # Twice is not wrong, and a lower one does not take anything back.
    stage_tag(scene.deliveries, staged, 0, True)
    staged.add(1, True)
    assert staged.holds(3)
