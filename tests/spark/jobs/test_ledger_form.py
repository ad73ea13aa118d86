"""The pipeline's idea of a ledger is the broker's."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.broker.ledger import records
from penstock.broker.ledger.queue_ledger import SEQUENCES_MAX
from penstock.spark.jobs import kinds
from penstock.spark.jobs import ledger_form as form
from penstock.spark.jobs.kinds import KIND_COUNT, KIND_NAMES, UNKNOWN, kind_table
from penstock.spark.jobs.ledger_catalog import NoLedger, find_places
from penstock.spark.jobs.ledger_survey import FileFacts, survey
from tests.spark.jobs.written import Book


def test_events_and_records_are_those_of_the_broker() -> None:
    names = [name for name in vars(records) if name.isupper() and not name.startswith("_")]
    assert "ACKNOWLEDGED" in names
    for name in names:
        ours = getattr(form, "BROKER_MAGIC" if name == "MAGIC" else name)
        theirs = getattr(records, name)
        if name == "RECORD":
            ours, theirs = ours.format, theirs.format
        assert ours == theirs, name
    assert form.head(form.BROKER_MAGIC) == records.head()
    words: list[int] = []
    records.add_record(words, 1, 2, 3, 4, 5, 6)
    records.add_enqueued(words, 1, 3, 7, 4, 5, 6, (9 << 32) + 0xFFFFFFF8)
    assert records.packed(words) == form.record(1, 2, 3, 4, 5, 6) + form.record(
        1, form.ENQUEUED, 3, 4, 5, 6, publisher=7, sequence=0xFFFFFFF8
    )
    assert form.name_record(1, 2, b"/\0q") == records.name_record(1, 2, 0, b"/\0q")
    assert form.name_record(1, 2, b"/", 4, 7) == records.name_record(1, 2, 4, b"/", 7)
    assert form.SEQUENCE_RECORDS_MAX * form.SEQUENCES_PER_RECORD == SEQUENCES_MAX


def test_every_kind_has_a_name_and_an_event() -> None:
    assert len(KIND_NAMES) == KIND_COUNT
    derived = {kinds.SURVIVED, kinds.ARRIVED, kinds.ORIGIN, kinds.EXPLAINED}
    told = {kind for kind in kind_table() if kind != UNKNOWN}
    assert told == set(range(KIND_COUNT)) - derived


def test_a_survey_finds_names_whatever_their_text_looks_like(tmp_path: Path) -> None:
    book = Book(tmp_path, form.BROKER_MAGIC)
    book.add(form.STARTED)
    # Its text is a name record by itself.
    trap = form.record(0, form.NAME, 0, 9, 0, 200).decode("latin-1").replace("\0", "\x01")
    names = ["short", "long" * 30, trap]
    numbers = [book.name("/", name) for name in names]
    book.add(form.ENQUEUED, numbers[2], 1, 5)
    late = book.name("/", "late")
    facts = survey(book.write() / "000000000001.led")
    assert facts.damage == ""
    assert [named.queue for named in facts.names] == [*names, "late"]
    assert [named.is_in_head for named in facts.names] == [True, True, True, False]
    assert facts.names[-1].number == late
    assert facts.started_at == 1_000
    assert FileFacts.from_json(facts.to_json()) == facts


@pytest.mark.parametrize(
    ("octets", "damage"),
    [
        (b"no ledger at all, but long enough to be one....", "does not begin"),
        (b"", ""),
        (form.BROKER_MAGIC + b"\x02" + bytes(23), "another version"),
        (form.head(form.BROKER_MAGIC) + form.record(0, form.ENQUEUED, 0, 3, 1, 1), "queue 3"),
        (form.head(form.BROKER_MAGIC) + form.record(0, 200, 0, 0, 1, 1), "no known kind"),
        (form.head(form.BROKER_MAGIC) + form.record(0, form.DROPPED, 9, 0, 1, 1), "no known kind"),
        (form.head(form.BROKER_MAGIC) + bytes(64), ""),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, octets: bytes, damage: str) -> None:
    path = tmp_path / "1.led"
    path.write_bytes(octets)
    facts = survey(path)
    assert (damage in facts.damage) if damage else not facts.damage


def test_a_place_without_a_ledger_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoLedger, match="--ledger"):
        find_places([tmp_path])
