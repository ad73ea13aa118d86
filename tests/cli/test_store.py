"""`penstock store`: what check and salvage say, and that neither touches what it reads."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import build_app
from penstock.server.data_directory import open_data_directory
from penstock.server.world.clock import MachineClock
from penstock.server.world.disk import MachineDisk
from penstock.server.world.entropy import MachineEntropy
from penstock.storage.batch import BATCH_HEADER_BYTES
from penstock.storage.errors import Damaged
from penstock.storage.journal import Journal, JournalListener
from penstock.storage.recovery import BatchListener, RecoveredJournal, recover
from penstock.storage.safe_point import JOURNAL, SEGMENT, SafePoint
from penstock.storage.segment import SEGMENT_HEADER_BYTES

PAYLOADS = [b"%02d" % number * 50 for number in range(6)]
BATCH_BYTES = BATCH_HEADER_BYTES + 100  # 128
SEGMENT_BYTES = SEGMENT_HEADER_BYTES + 2 * (BATCH_BYTES + BATCH_HEADER_BYTES)
# Each batch has its note behind it.
FIRST = SEGMENT_HEADER_BYTES
STEP = BATCH_BYTES + BATCH_HEADER_BYTES
SECOND = "journal/000000000002.log"
LAST = "journal/000000000003.log"


class Reader(BatchListener):
    def __init__(self) -> None:
        self.payloads: list[bytes] = []

    def batch(self, location: int, payload: bytes) -> None:
        self.payloads.append(payload)


class Waiter(JournalListener):
    def __init__(self) -> None:
        self.heard = asyncio.Event()

    def durable(self, position: int, now: int) -> None:
        self.heard.set()

    def failed(self, reason: str, now: int) -> None:
        raise AssertionError(reason)


async def fill(path: Path) -> None:
    directory = open_data_directory(path, MachineClock(), MachineEntropy())
    disk = MachineDisk(path, MachineClock(), asyncio.get_running_loop())
    waiter = Waiter()
    journal = Journal(disk, waiter, recover(disk, directory.store_id, Reader()), SEGMENT_BYTES)
    for payload in PAYLOADS:
        journal.append(payload)
        waiter.heard.clear()
        journal.request_flush()
        await asyncio.wait_for(waiter.heard.wait(), 10)
    disk.close()
    directory.close()


def read_back(path: Path) -> tuple[list[bytes], RecoveredJournal]:
    async def read() -> tuple[list[bytes], RecoveredJournal]:
        disk = MachineDisk(path, MachineClock(), asyncio.get_running_loop())
        reader = Reader()
        try:
            return reader.payloads, recover(disk, bytes(16), reader)
        finally:
            disk.close()

    return asyncio.run(read())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    asyncio.run(fill(path))
    return path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(build_app(["store"]), ["store", *arguments])
    return result.exit_code, result.output


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def flip(path: Path, name: str, offset: int) -> None:
    data = bytearray((path / name).read_bytes())
    data[offset] ^= 1
    (path / name).write_bytes(data)


def cut(path: Path, name: str, size: int) -> None:
    (path / name).write_bytes((path / name).read_bytes()[:size])


Change = Callable[[Path], None]


def test_a_whole_store_is_listed_by_segment(store: Path) -> None:
    code, output = run("check", str(store))
    assert code == 0
    lines = [f"journal/00000000000{number}.log: 4 batches, " for number in (1, 2, 3)]
    listed = [line + f"{SEGMENT_BYTES} bytes" for line in lines]
    assert output.splitlines() == [*listed, "verdict: intact"]


def test_a_whole_store_is_copied_whole_under_an_id_of_its_own(store: Path, tmp_path: Path) -> None:
    before = contents(store)
    new = tmp_path / "new"
    code, output = run("salvage", str(store), "--to", str(new))
    assert (code, output) == (0, f"6 batches, 600 bytes copied to {new}\n")
    assert contents(store) == before
    payloads, state = read_back(new)
    assert payloads == PAYLOADS
    assert state.store_id != read_back(store)[1].store_id
    assert run("check", str(new))[0] == 0


def test_a_torn_tail_is_named_and_left_out(store: Path, tmp_path: Path) -> None:
    at = FIRST + STEP
    cut(store, LAST, at + 50)
    before = contents(store)
    code, output = run("check", str(store))
    assert code == 1
    assert f"torn tail: {LAST} from offset {at} to {at + 50}: 50 bytes" in output
    assert output.splitlines()[-1].startswith(
        "verdict: torn tail (an incomplete last write), which the next start removes"
    )
    code, output = run("salvage", str(store), "--to", str(tmp_path / "new"))
    assert code == 1
    assert f"torn tail: {LAST} from offset {at} to {at + 50}: 50 bytes" in output
    assert contents(store) == before
    assert read_back(tmp_path / "new")[0] == PAYLOADS[:5]
    assert read_back(store)[0] == PAYLOADS[:5], "as the next start would have it"


@pytest.mark.parametrize(
    ("change", "lost", "said"),
    [
        (
            lambda path: flip(path, SECOND, FIRST + 60),
            [2],
            f"{SECOND} from offset {FIRST} to {FIRST + BATCH_BYTES}: {BATCH_BYTES} bytes",
        ),
        (
            lambda path: flip(path, SECOND, SEGMENT_BYTES - 1),
            [],
            f"{SECOND} from offset {SEGMENT_BYTES - 28} to {SEGMENT_BYTES}: 28 bytes",
        ),
        (lambda path: flip(path, SECOND, 20), [], f"{SECOND} from offset 0 to 46: 46 bytes"),
        (
            lambda path: (path / SECOND).unlink(),
            [2, 3],
            f"{LAST} at offset 0: the {2 * STEP} bytes before it are missing",
        ),
        (
            lambda path: cut(path, SECOND, FIRST + STEP),
            [3],
            f"{LAST} at offset 0: the {STEP} bytes before it are missing",
        ),
        (
            lambda path: flip(path, LAST, FIRST + STEP + 3),
            [5],
            f"{LAST} from offset {FIRST + STEP} to {FIRST + STEP + 128}: 128 bytes",
        ),
    ],
)
def test_damage_is_named_with_its_place_and_the_rest_is_saved(
    store: Path, tmp_path: Path, change: Change, lost: list[int], said: str
) -> None:
    change(store)
    before = contents(store)
    for code, output in (
        run("check", str(store)),
        run("salvage", str(store), "--to", str(tmp_path / "new")),
    ):
        assert code == 2
        found = [line for line in output.splitlines() if line.startswith("damaged:")]
        assert found == [f"damaged: {said}"]
        assert "torn" not in output
    assert contents(store) == before
    with pytest.raises(Damaged):
        read_back(store)
    saved, state = read_back(tmp_path / "new")
    assert saved == [payload for index, payload in enumerate(PAYLOADS) if index not in lost]
    assert state.torn_tail is None


def test_damage_and_a_torn_tail_are_told_apart(store: Path, tmp_path: Path) -> None:
    flip(store, SECOND, FIRST + 60)
    at = FIRST + STEP
    cut(store, LAST, at + 50)
    code, output = run("salvage", str(store), "--to", str(tmp_path / "new"))
    assert code == 2
    assert output.count("damaged:") == 1
    assert f"torn tail: {LAST} from offset {at}" in output
    assert read_back(tmp_path / "new")[0] == [*PAYLOADS[:2], *PAYLOADS[3:5]]


def test_what_is_no_store_or_in_use_is_refused(store: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for path, text in (
        (tmp_path / "other", "no `meta`"),
        (tmp_path / "nowhere", "not a directory"),
    ):
        code, output = run("check", str(path))
        assert code == 3 and text in output
    directory = open_data_directory(store, MachineClock(), MachineEntropy())
    code, output = run("check", str(store))
    assert code == 3 and "in use by" in output
    directory.close()
    (store / "journal" / "notes.txt").write_text("mine")
    code, output = run("check", str(store))
    assert code == 3 and "notes.txt is not a journal segment" in output


def test_salvage_does_not_write_into_a_directory_that_is_there(store: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    for target in (tmp_path / "new", store):
        before = contents(tmp_path)
        code, output = run("salvage", str(store), "--to", str(target))
        assert code == 3 and "already exists" in output
        assert contents(tmp_path) == before


def safe_up_to(path: Path, position: int) -> None:
    """As a clean stop notes it."""

    async def note() -> None:
        disk = MachineDisk(path, MachineClock(), asyncio.get_running_loop())
        SafePoint(disk).note({JOURNAL: position, SEGMENT: 3})
        disk.close()

    asyncio.run(note())


END = 3 * (SEGMENT_BYTES - SEGMENT_HEADER_BYTES)


@pytest.mark.parametrize("size", [FIRST + STEP, FIRST + STEP + 50, FIRST + 1, FIRST, 0])
def test_a_journal_that_ends_before_where_a_clean_stop_ended_is_damaged(
    store: Path, tmp_path: Path, size: int
) -> None:
    safe_up_to(store, END)
    assert run("check", str(store))[0] == 0
    cut(store, LAST, size)
    code, output = run("check", str(store))
    assert code == 2
    assert f"damaged: {LAST} " in output
    assert output.splitlines()[-1].startswith("verdict: damaged.")
    before = contents(store)
    with pytest.raises(Damaged, match="durable") as refused:
        read_back(store)
    assert refused.value.file == LAST
    assert contents(store) == before
    code, output = run("salvage", str(store), "--to", str(tmp_path / "new"))
    assert code == 2
    assert read_back(tmp_path / "new")[0] == PAYLOADS[: 5 if size >= FIRST + STEP else 4]


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_store_without_its_journal_is_not_whole(store: Path, is_noted: bool) -> None:
    if is_noted:
        safe_up_to(store, END)
    for file in (store / "journal").iterdir():
        file.unlink()
    code, output = run("check", str(store))
    assert code == 2
    assert (f"missing: {LAST} and every other segment" in output) == is_noted
    assert "verdict: damaged" in output
    if is_noted:
        with pytest.raises(Damaged, match="missing"):
            read_back(store)
