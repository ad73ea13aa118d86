"""Files in memory behave as files, and flushes are answered when they should be."""

from penstock.storage.memory_disk import MemoryDisk
from penstock.world.disk import FlushListener


class Listener(FlushListener):
    def __init__(self) -> None:
        self.tokens: list[int] = []

    def flushed(self, token: int, now: int) -> None:
        self.tokens.append(token)

    def flush_failed(self, reason: str, now: int) -> None:
        raise AssertionError(reason)


def test_a_file_is_the_same_for_everybody_who_opens_it() -> None:
    disk = MemoryDisk()
    file = disk.open("a/b")
    assert file.append(b"hello") == 5
    assert disk.open("a/b").read(1, 3) == b"ell"
    assert disk.open("a/b").read(4, 10) == b"o"
    file.truncate(2)
    assert disk.open("a/b").size() == 2
    assert disk.names() == ["a/b"]
    disk.remove("a/b")
    assert disk.names() == []


def test_a_flush_is_answered_at_once_or_when_the_owner_says() -> None:
    at_once = Listener()
    MemoryDisk().flush([], 7, at_once)
    assert at_once.tokens == [7]
    later = Listener()
    disk = MemoryDisk(at_once=False)
    disk.flush([], 1, later)
    disk.flush([], 2, later)
    assert later.tokens == []
    disk.answer_flushes(0)
    assert later.tokens == [1, 2]
