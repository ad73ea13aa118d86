"""What the journal of a member keeps of streams, until their files are flushed, and how that leaves it."""

from penstock.broker.store.limits import StoreLimits
from tests.ha.replica_doubles import Member, audit

# A step of the reclaimer reads one batch, so that copying a segment takes many ticks.
ONE_BATCH = StoreLimits(
    segment_bytes_max=2000, reclaim_step_bytes=1, reclaim_patience_ms=0, reclaim_busy_ms=0
)


def root_with_stream() -> Member:
    root = Member(limits=ONE_BATCH)
    root.promote(1)
    root.declare("log", x_queue_type="stream")
    return root


def test_what_waits_for_a_flush_of_the_files_is_not_looked_through_for_copies() -> None:
    """The journal keeps appends until then, and would read whole segments to copy nothing."""
    root = root_with_stream()
    root.declare("passing")
    for _ in range(60):
        root.put("log", b"small")
        root.put("passing", bytes(500))
        root.tick()
        root.flushed()
        root.commit_streams()
        # Most of every segment is dead, so that it would be worth copying.
        root.take("passing")
        assert not root.reclaimer.is_busy()
    kept = len(root.journal.segments())
    assert kept > 5
    root.flush_streams()
    root.rest()
    assert len(root.journal.segments()) < kept / 2
    audit(root)


def test_a_message_that_lives_beside_appends_is_copied() -> None:
    root = root_with_stream()
    root.declare("stuck")
    root.put("stuck", b"alive")
    oldest = root.journal.segments()[0]
    for _ in range(100):
        root.put("log", bytes(100))
        root.tick()
        root.flushed()
        root.commit_streams()
    root.flush_streams()
    root.rest()
    assert root.journal.segments()[0] > oldest
    audit(root)
    assert root.drain("stuck") == [b"alive"]
