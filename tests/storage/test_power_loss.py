"""A journal on the simulated disk: whatever dies when, what was said to be safe is there."""

from collections.abc import Callable

import pytest

from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.disk import SimulatedDisk
from penstock.storage.journal import Journal
from penstock.storage.recovery import recover
from penstock.storage.segment import segment_of
from tests.simulation.doubles import dice_of
from tests.storage.doubles import STORE_ID, Collector, RecordingOwner

SEGMENT_BYTES = 20_000
LIVES = 6


class Story:
    """One seed: lives of a journal, each ended by a kill or a power loss."""

    def __init__(self, seed: int) -> None:
        self.clock = VirtualClock()
        self.dice: Dice = dice_of(seed)
        self.disk = SimulatedDisk(self.clock, self.dice.fork("disk"))
        # What the journal holds, with the position behind each batch and its segment.
        self.appended: list[tuple[bytes, int, int]] = []
        # The highest position that a journal said was safe.
        self.durable = 0
        self.count = 0
        self.cut_count = 0
        # Known to be removed: may be gone, and must go in order.
        self.removed_count = 0

    def live(self) -> None:
        collector = Collector()
        state = recover(self.disk, STORE_ID, collector)
        end = self.check(collector)
        self.cut_count += state.torn_tail is not None
        owner = RecordingOwner()
        journal = Journal(self.disk, owner, state, SEGMENT_BYTES)
        if not self.begin(journal):
            return
        del self.appended[end:]
        for _ in range(self.dice.between(0, 40)):
            self.act(journal)
        self.durable = max([*owner.positions, self.durable])

    def begin(self, journal: Journal) -> bool:
        """A server flushes what it recovered before it serves anyone, because until then a cut may
        come undone; some die before that.
        """
        journal.request_flush()
        if self.dice.chance(0.2):
            self.clock.run(200)
            return False
        self.clock.run(1_000_000)
        assert journal.durable_position >= journal.position
        return True

    def act(self, journal: Journal) -> None:
        actions: list[tuple[Callable[[Journal], None], int]] = [
            (self.append, 10),
            (Journal.request_flush, 4),
            (self.wait, 4),
            (self.reclaim, 1),
        ]
        self.dice.weighted(actions)(journal)

    def append(self, journal: Journal) -> None:
        self.count += 1
        size = self.dice.choose([10, 100, 3000, 9000])
        payload = b"%d:" % self.count + self.dice.octets(20) * (size // 20 + 1)
        location = journal.append(payload)
        self.appended.append((payload, journal.position, segment_of(location)))

    def wait(self, journal: Journal) -> None:
        self.clock.run(self.dice.choose([50, 5000, 500_000]))

    def reclaim(self, journal: Journal) -> None:
        segments = journal.segments()
        if len(segments) > 1:
            journal.remove_segment(segments[0])
            self.removed_count = max(self.removed_count, segments[0])

    def die(self) -> None:
        if self.dice.chance(0.3):
            self.disk.kill()
        else:
            self.disk.crash()

    def check(self, collector: Collector) -> int:
        """A run of what was appended: from a segment boundary at or before the first that was not
        removed, to the last that was safe or any later one. Returns where it ends.
        """
        payloads = collector.payloads
        known = [payload for payload, _, _ in self.appended]
        begin = known.index(payloads[0]) if payloads else 0
        assert payloads == known[begin : begin + len(payloads)]
        for payload, _, segment in self.appended[:begin]:
            assert segment <= self.removed_count, payload[:10]
        end = begin + len(payloads)
        for payload, position, segment in self.appended[end:]:
            assert position > self.durable or segment <= self.removed_count, payload[:10]
        return end


def play(seed: int) -> Story:
    story = Story(seed)
    for _ in range(LIVES):
        story.live()
        story.die()
    return story


@pytest.mark.parametrize("block", range(8))
def test_what_was_safe_is_recovered_in_order_whatever_dies_when(block: int) -> None:
    cuts = removals = batches = 0
    for seed in range(block * 50, block * 50 + 50):
        story = play(seed)
        cuts += story.cut_count
        removals += story.removed_count > 0
        batches += story.count
    assert cuts > 20 and removals > 10 and batches > 2000, "the stories are not boring"
