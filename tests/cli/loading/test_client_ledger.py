"""The clients' side of an audit, as it is written."""

from pathlib import Path

import pytest

from penstock.cli.loading.client_ledger import ClientLedger, WrittenArrivals
from penstock.formats import ledger_records as form

Run = tuple[int, int, int, int, int]


def runs(path: Path) -> list[Run]:
    """Event, detail, name, first, count of every record that is no name."""
    octets = path.read_bytes()
    assert octets[: form.RECORD_SIZE] == form.head(form.CLIENT_MAGIC)
    at = form.RECORD_SIZE
    found: list[Run] = []
    while at < len(octets):
        _, event, detail, _, name, first, count, _ = form.RECORD.unpack_from(octets, at)
        at += form.RECORD_SIZE
        if event == form.NAME:
            at += -(-count // form.RECORD_SIZE) * form.RECORD_SIZE
        else:
            found.append((event, detail, name, first, count))
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "1.led"


def test_numbers_are_written_as_runs(path: Path) -> None:
    book = ClientLedger(path)
    name = book.name("/", "", "p")
    assert book.name("/", "", "p") == name
    book.add_all(form.CONFIRMED, name, range(5, 9))
    book.add_all(form.REFUSED, name, [1, 2, 4, 9, 10])
    book.add_all(form.REFUSED, name, [])
    book.close()
    assert runs(path) == [
        (form.CONFIRMED, 0, name, 5, 4),
        (form.REFUSED, 0, name, 1, 2),
        (form.REFUSED, 0, name, 4, 1),
        (form.REFUSED, 0, name, 9, 2),
    ]


def test_a_sinks_books_are_kept_and_written(path: Path) -> None:
    book = ClientLedger(path)
    ledger = WrittenArrivals(book, book.name("/", "q", "p"))
    arrived = [(0, False), (1, False), (2, True), (3, True), (1, False)]
    firsts = [ledger.enter(sequence, flag) for sequence, flag in arrived]
    assert firsts == [True, True, True, True, False]
    ledger.end_run()
    ledger.end_run()
    ledger.enter(2, True)
    ledger.end_run()
    book.close()
    assert ledger.page().duplicates_unflagged == 1
    assert runs(path) == [
        (form.RECEIVED, 0, 0, 0, 2),
        (form.RECEIVED, 1, 0, 2, 2),
        (form.RECEIVED, 0, 0, 1, 1),
        (form.RECEIVED, 1, 0, 2, 1),
    ]


def test_what_is_flushed_can_be_read_before_the_end(path: Path) -> None:
    book = ClientLedger(path)
    book.add(form.PUBLISHED, book.name("/", "", "p"), 0, 7)
    book.flush()
    assert runs(path) == [(form.PUBLISHED, 0, 0, 0, 7)]
    book.close()
