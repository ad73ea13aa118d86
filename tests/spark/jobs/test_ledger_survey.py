"""What is found in the files of ledgers before any record is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.formats import ledger_records as form
from penstock.spark.jobs import kinds
from penstock.spark.jobs.kinds import KIND_COUNT, KIND_NAMES, UNKNOWN, kind_table
from penstock.spark.jobs.ledger_catalog import NoLedger, find_places
from penstock.spark.jobs.ledger_survey import FileFacts, survey
from tests.spark.jobs.written import Book


def test_every_kind_has_a_name_and_an_event() -> None:
    assert len(KIND_NAMES) == KIND_COUNT
    derived = {kinds.SURVIVED, kinds.ARRIVED, kinds.UNCOMMITTED}
    derived |= {kinds.ORIGIN, kinds.EXPLAINED, kinds.DOUBTFUL, kinds.LATER}
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
        (b"no ledger at all, but long enough to be one....", "does not have the header"),
        (b"", ""),
        (form.BROKER_MAGIC + b"\x02" + bytes(23), "format version"),
        (form.head(form.BROKER_MAGIC) + form.record(0, form.ENQUEUED, 0, 3, 1, 1), "queue 3"),
        (form.head(form.BROKER_MAGIC) + form.record(0, 200, 0, 0, 1, 1), "an unknown kind"),
        (
            form.head(form.BROKER_MAGIC) + form.record(0, form.DROPPED, 9, 0, 1, 1),
            "an unknown kind",
        ),
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
