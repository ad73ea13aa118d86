"""`penstock store` and streams: check names what is damaged, salvage keeps the rest in its place."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.broker.streams.folders import folder_of
from penstock.cli.main import build_app
from penstock.cli.store_streams import LOST_HEADER
from penstock.formats.stream_index import NOTED
from penstock.server.data_directory import open_data_directory
from penstock.server.world.clock import MachineClock
from penstock.server.world.disk import MachineDisk
from penstock.server.world.entropy import MachineEntropy
from penstock.storage.errors import Damaged
from penstock.storage.journal import Journal, JournalListener
from penstock.storage.number_table import NumberTable, read_newest
from penstock.storage.publisher_notes import encode_group, encode_table
from penstock.storage.recovery import BatchListener, recover
from penstock.storage.safe_point import JOURNAL, SEGMENT, SafePoint
from penstock.storage.stream_log import StreamLog
from penstock.storage.stream_segment import publishers_name
from penstock.wire.amqp091.content import BasicProperties, decode_properties, encode_header

FOLDER = folder_of("/", "events", 1)
LOG = FOLDER + "/00000000000000000000.log"
INDEX = FOLDER + "/00000000000000000000.idx"
ADDRESS = b"\x02ex\x03key"
HEADER = encode_header(5, BasicProperties())
BODIES = [b"body%d" % number for number in range(10)]
PAYLOAD_BYTES = len(ADDRESS) + 4 + len(HEADER) + 4 + 5


class OnDisk:
    """A disk in a folder, for as long as a block lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, work: Callable[[MachineDisk], None]) -> None:
        async def run() -> None:
            disk = MachineDisk(self._path, MachineClock(), asyncio.get_running_loop())
            try:
                work(disk)
            finally:
                disk.close()

        asyncio.run(run())


class Unread(BatchListener):
    def batch(self, location: int, payload: bytes) -> None:
        return


class Unheard(JournalListener):
    def durable(self, position: int, now: int) -> None:
        return

    def failed(self, reason: str, now: int) -> None:
        raise AssertionError(reason)


def fill(disk: MachineDisk) -> None:
    log = StreamLog(disk, FOLDER, [], 400, 0)
    for number, body in enumerate(BODIES):
        if log.must_roll():
            log.roll()
        log.add(ADDRESS, HEADER, body, 0, 100 + number)
        log.write()
        log.flush_requested()
        log.became_durable(log.end_offset)
    cursors = NumberTable(disk, f"{FOLDER}/cursors", [])
    cursors.put("spark", 4)
    cursors.write()
    # A store is not whole without a journal.
    state = recover(disk, bytes(16), Unread())
    Journal(disk, Unheard(), state).append(b"definitions")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    open_data_directory(path, MachineClock(), MachineEntropy()).close()
    OnDisk(path)(fill)
    return path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(build_app(["store"]), ["store", *arguments])
    return result.exit_code, result.output


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in (path / "streams").rglob("*")
        if file.is_file()
    }


def messages(path: Path) -> list[bytes]:
    """Bodies by offset; a lost one is told by its header."""
    found: list[bytes] = []

    def work(disk: MachineDisk) -> None:
        log = StreamLog(disk, FOLDER, disk.names(), 400, 0)
        for offset in range(log.first_offset, log.end_offset):
            [entry] = log.read(offset, 1, 0)
            headers = decode_properties(entry.header).headers or {}
            found.append(b"lost" if headers.get(LOST_HEADER) else entry.body)

    OnDisk(path)(work)
    return found


def flip(path: Path, name: str, offset: int) -> None:
    data = bytearray((path / name).read_bytes())
    data[offset] ^= 1
    (path / name).write_bytes(data)


def test_a_stream_is_listed_with_its_offsets(store: Path) -> None:
    code, output = run("check", str(store))
    assert code == 0
    assert f"stream 'events' in vhost '/' in {FOLDER}: 2 segments, offsets 0 to 10, " in output
    assert output.splitlines()[-2].endswith("1 cursors")
    assert output.splitlines()[-1] == "verdict: intact"


def test_a_whole_stream_is_copied_as_it_is(store: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    code, output = run("salvage", str(store), "--to", str(new))
    assert code == 0
    assert "stream 'events' in vhost '/': 10 messages copied\n" in output
    assert contents(new) == contents(store)


@pytest.mark.parametrize(
    ("change", "lost", "said"),
    [
        (
            lambda path: flip(path, LOG, 32 + 2 * PAYLOAD_BYTES - 1),
            [1],
            f"{LOG} at offset {32 + PAYLOAD_BYTES}: message 1 is damaged",
        ),
        (
            lambda path: flip(path, INDEX, 32 * 3 + 20),
            [],
            (
                f"{INDEX} at offset 96: message 2 is not at the position or of the size in the "
                "index; kept"
            ),
        ),
        (
            lambda path: (path / INDEX).unlink(),
            [],
            f"{INDEX} at offset 0: missing",
        ),
    ],
)
def test_damage_is_named_and_every_other_message_keeps_its_offset(
    store: Path, tmp_path: Path, change: Callable[[Path], None], lost: list[int], said: str
) -> None:
    change(store)
    before = contents(store)
    new = tmp_path / "new"
    for code, output in (run("check", str(store)), run("salvage", str(store), "--to", str(new))):
        assert code == 2
        assert f"damaged: {said}" in output.splitlines()
    assert contents(store) == before
    kept = [b"lost" if n in lost else body for n, body in enumerate(BODIES)]
    assert messages(new) == kept
    assert run("check", str(new))[0] == 0
    tables: list[dict[str, int]] = []
    OnDisk(new)(
        lambda disk: tables.append(
            read_newest(disk, f"{FOLDER}/cursors", disk.names()).numbers,
        )
    )
    assert tables == [{"spark": 4}]


def test_a_torn_tail_is_named_and_left_out(store: Path, tmp_path: Path) -> None:
    last = max((store / FOLDER).glob("*.log"))
    last.write_bytes(last.read_bytes()[:-3])
    name = str(last.relative_to(store))
    code, output = run("check", str(store))
    assert code == 1
    assert f"torn tail: {name} from offset" in output
    assert "messages from offset 9 on" in output
    code, _ = run("salvage", str(store), "--to", str(tmp_path / "new"))
    assert code == 1
    assert messages(tmp_path / "new") == BODIES[:9] == messages(store)


def test_a_start_on_damage_names_the_file_the_offset_and_what_to_do(store: Path) -> None:
    last = str(max((store / FOLDER).glob("*.log")).relative_to(store))
    flip(store, last, 32 + PAYLOAD_BYTES - 1)
    with pytest.raises(Damaged) as refused:
        messages(store)
    assert str(refused.value).startswith(f"{last} is damaged at offset 32: message ")
    assert "`penstock store check`" in str(refused.value)
    assert "`penstock store salvage`" in str(refused.value)


def safe_up_to(path: Path, offset: int, folder: str = FOLDER) -> None:
    """As a clean stop notes it."""
    OnDisk(path)(lambda disk: SafePoint(disk).note({JOURNAL: 1, SEGMENT: 1, folder: offset}))


@pytest.mark.parametrize(
    ("change", "said", "left"),
    [
        (lambda last, index: last.write_bytes(last.read_bytes()[:-3]), "message 9 is damaged", 9),
        (
            lambda last, index: index.write_bytes(index.read_bytes()[:-32]),
            "message 9 is missing",
            9,
        ),
    ],
)
def test_a_stream_that_ends_before_where_a_clean_stop_ended_is_damaged(
    store: Path, tmp_path: Path, change: Callable[[Path, Path], None], said: str, left: int
) -> None:
    safe_up_to(store, 10)
    assert run("check", str(store))[0] == 0
    last = max((store / FOLDER).glob("*.log"))
    change(last, last.with_suffix(".idx"))
    code, output = run("check", str(store))
    assert code == 2
    assert "torn" not in output
    assert f"{said}\n" in output
    with pytest.raises(Damaged, match="were durable"):
        OnDisk(store)(open_safe_up_to_ten)
    code, output = run("salvage", str(store), "--to", str(tmp_path / "new"))
    assert code == 2
    assert messages(tmp_path / "new")[:left] == BODIES[:left]


def open_safe_up_to_ten(disk: MachineDisk) -> None:
    StreamLog(disk, FOLDER, disk.names(), 400, 0, safe_end=10)


def test_a_stream_that_is_gone_after_a_clean_stop_is_missed(store: Path) -> None:
    safe_up_to(store, 10, "streams/2f/656c7365-2")
    code, output = run("check", str(store))
    assert code == 2
    assert "damaged: streams/2f/656c7365-2 at offset 0: messages 0 to 9 are missing" in output


def add_rows(disk: MachineDisk) -> None:
    """Rows of a sink with their note, all of it safe, and a message behind them."""
    log = StreamLog(disk, FOLDER, disk.names(), 1 << 20, 0)
    begin = log.end_offset
    for body in (b"row-1", b"row-2"):
        log.add(ADDRESS, HEADER, body, NOTED, 200)
    log.write()
    note = disk.open(publishers_name(FOLDER, log.segments[-1].first_offset))
    note.append(encode_table({"p": 7}, {}))
    note.append(
        encode_group({}, {"stage": 2}, begin, log.end_offset, log.entries_crc(begin)),
    )
    log.flush_requested()
    log.became_durable(log.end_offset)
    log.add(ADDRESS, HEADER, b"after", 0, 201)
    log.write()


def test_a_note_that_does_not_count_rows_is_named_and_the_rows_are_salvaged(
    store: Path, tmp_path: Path
) -> None:
    OnDisk(store)(add_rows)
    assert run("check", str(store))[0] == 0
    [note] = [name for name in contents(store) if name.endswith(".pub")]
    whole = (store / note).read_bytes()
    (store / note).write_bytes(whole[:-3])
    code, output = run("check", str(store))
    assert code == 2
    assert "it has no entry for message 10, a row of a sink" in output
    with pytest.raises(Damaged):
        messages(store)
    new = tmp_path / "new"
    code, output = run("salvage", str(store), "--to", str(new))
    assert code == 2, output
    assert messages(new) == [*BODIES, b"row-1", b"row-2", b"after"]
    # What is whole of the note goes along.
    assert (new / note).read_bytes() == encode_table({"p": 7}, {})
