"""The storage of a node: what its first flush covers."""

from tests.broker.store.doubles import ROOMY, Broker, copied
from tests.broker.streams.test_journalled_appends import Machine, machine


def test_what_comes_back_is_appended_only_when_the_journal_has_its_new_offset_safely() -> None:
    running = machine(b"one", b"two")
    empty = running.stream_files()
    running.reject()
    running.reject()
    running.broker.tick()
    running.answer()
    running.broker.tick()
    found = running.restarted(empty)
    before = copied(found.disk)
    # The flush that a start asks for covers nothing that the first tick writes.
    found.answer()
    found.broker.tick()
    assert found.bodies() == []
    # The power goes: the tick's batch is lost, and the stream's files are kept.
    lost = Machine(Broker(before, ROOMY)).restarted(found.stream_files())
    lost.settle()
    assert lost.bodies() == [b"one", b"two"]
