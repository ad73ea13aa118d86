"""Which message of a client's lies at which position: read from both ledgers, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.formats import ledger_records as form
from penstock.spark.jobs import kinds as k
from penstock.spark.jobs.audit import circumstances
from penstock.spark.jobs.audit_steps import (
    BLOCK_NUMBER_BITS,
    EXPLAINED_ROW,
    PickBlocks,
    PickExplained,
    SweepBlocks,
)
from penstock.spark.jobs.findings import Finding
from penstock.spark.jobs.ledger_catalog import Catalog, Role, build_catalog, find_places
from penstock.spark.jobs.ledger_origins import SEQUENCE_BITS
from penstock.spark.jobs.ledger_reading import read_slice
from penstock.spark.jobs.ledger_survey import survey
from penstock.spark.jobs.runs import Runs, cut, joined
from tests.spark.jobs.written import Book

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "load p/1"


def catalog_of(*folders: Path) -> Catalog:
    places = find_places(folders)
    facts = [survey(path) for place in places for path in map(type(folders[0]), place.paths)]
    return build_catalog(places, {known.path: known for known in facts})


def runs_of(catalog: Catalog) -> Runs:
    return joined([read_slice(known) for known in catalog.slices])


def origins_in(catalog: Catalog) -> list[tuple[int, int, int, str, int]]:
    """Start, position, count, publisher and sequence of every run that has them."""
    runs = runs_of(catalog)
    found = runs.where(runs.kind == k.ORIGIN)
    publisher = [catalog.queues[pair].third for pair in (found.time >> SEQUENCE_BITS).tolist()]
    sequence = found.time & ((1 << SEQUENCE_BITS) - 1)
    columns = (found.start, found.first, found.count)
    return sorted(
        (*place, name, number)
        for *place, name, number in zip(
            *(column.tolist() for column in columns), publisher, sequence.tolist(), strict=True
        )
    )


def client(folder: Path, *tags: tuple[int, int], messages: int = 100) -> Book:
    book = Book(folder, form.CLIENT_MAGIC)
    name = book.name("/", "", "p")
    book.add(form.REACHES, book.name("/", "q", "p"))
    book.session(SESSION, "p", *tags)
    book.add(form.PUBLISHED, name, 0, messages)
    book.add(form.CONFIRMED, name, 0, messages)
    return book


def broker(folder: Path, number: int = 1) -> tuple[Book, int]:
    book = Book(folder, form.BROKER_MAGIC, number)
    book.add(form.STARTED)
    return book, book.name("/", "q")


def test_runs_carry_tags_and_clients_say_what_they_are(tmp_path: Path) -> None:
    book, q = broker(tmp_path / "a")
    publisher = book.publisher(SESSION)
    book.add(form.ENQUEUED, q, 1, 10, 1, publisher, 1)
    book.add(form.ENQUEUED, q, 11, 5, 1)
    book.add(form.ENQUEUED, q, 16, 10, 1, publisher, 11)
    # From tag 15 on, what was in doubt is sent again.
    catalog = catalog_of(book.write(), client(tmp_path / "c", (1, 0), (15, 7)).write())
    assert origins_in(catalog) == [
        (0, 1, 10, "p", 0),
        (0, 16, 4, "p", 10),
        (0, 20, 6, "p", 7),
    ]
    runs = runs_of(catalog)
    arrived = runs.where(runs.kind == k.ARRIVED)
    assert sorted(zip(arrived.first.tolist(), arrived.count.tolist(), strict=True)) == [
        (0, 10),
        (7, 6),
        (10, 4),
    ]


def test_sequences_that_do_not_follow_one_another_are_listed(tmp_path: Path) -> None:
    book, q = broker(tmp_path / "a")
    publisher = book.publisher(SESSION, high=1)
    tags = [2, 4, 6, 8, 10, 12, 14, 16, 18]
    book.add_listed(q, 5, publisher, tags)
    book.add(form.ENQUEUED, q, 14, 1, 1, publisher, 30)
    high = 1 << 32
    catalog = catalog_of(book.write(), client(tmp_path / "c", (high, 0)).write())
    told = [(0, 5 + index, 1, "p", tag) for index, tag in enumerate(tags)]
    assert origins_in(catalog) == [*told, (0, 14, 1, "p", 30)]


def test_sequences_that_were_torn_off_are_left_out(tmp_path: Path) -> None:
    book, q = broker(tmp_path / "a")
    publisher = book.publisher(SESSION)
    book.add_listed(q, 1, publisher, list(range(1, 40, 2)))
    (path,) = book.write().iterdir()
    path.write_bytes(path.read_bytes()[: -form.RECORD_SIZE])
    catalog = catalog_of(tmp_path / "a", client(tmp_path / "c", (1, 0)).write())
    assert origins_in(catalog) == []


def test_neighbouring_runs_are_one_whatever_stands_between_their_records(tmp_path: Path) -> None:
    """A queue of bounded length drops a message for each that enters."""
    book, q = broker(tmp_path / "a")
    publisher = book.publisher(SESSION)
    for position in range(1, 51):
        book.add(form.ENQUEUED, q, position, 1, 1, publisher, position)
        book.add(form.DROPPED, q, position, 1, 1)
    clients = client(tmp_path / "c", (1, 0), messages=50)
    catalog = catalog_of(book.write(), clients.write())
    assert origins_in(catalog) == [(0, 1, 50, "p", 0)]
    runs = runs_of(catalog)
    keys = np.unique(cut(runs).runs.queue.astype(np.int64) << BLOCK_NUMBER_BITS)
    found = pa.Table.from_batches(
        SweepBlocks(circumstances(catalog), 20)(PickBlocks(keys)(iter([runs])))
    ).to_pylist()
    told = [row for row in found if row["finding"] == EXPLAINED_ROW]
    assert [(row["sequence"], row["count"]) for row in told] == [(0, 50)]
    assert judged(catalog) == set()


def test_a_session_that_two_have_had_tells_nothing(tmp_path: Path) -> None:
    book, q = broker(tmp_path / "a")
    book.add(form.ENQUEUED, q, 1, 10, 1, book.publisher(SESSION, 1), 1)
    book.add(form.ENQUEUED, q, 11, 10, 1, book.publisher(SESSION, 2), 1)
    catalog = catalog_of(book.write(), client(tmp_path / "c", (1, 0)).write())
    assert not catalog.has_origins
    assert not any(queue.is_identified for queue in catalog.queues)


def judged(catalog: Catalog) -> set[tuple[str, str, int, int, str, int]]:
    """The second look over everything: findings with names, as the audit's examples."""
    runs = runs_of(catalog)
    pieces = cut(runs)
    keys = np.unique((pieces.runs.queue.astype(np.int64) << BLOCK_NUMBER_BITS) + pieces.block)
    is_client = np.array([queue.role is Role.CLIENT for queue in catalog.queues])
    of_clients = is_client[keys >> BLOCK_NUMBER_BITS]
    step = SweepBlocks(circumstances(catalog), 20)
    of_queues = list(step(PickBlocks(keys[~of_clients])(iter([runs]))))
    table = pa.Table.from_batches(of_queues)
    chosen = table.filter(pa.array(table.column("finding").to_numpy() == EXPLAINED_ROW))
    told = PickExplained(keys[of_clients])(iter(chosen.to_batches()))
    picked = PickBlocks(keys[of_clients])(iter([runs]))
    rows = pa.Table.from_batches([*of_queues, *step(iter([*picked, *told]))]).to_pylist()
    return {
        (
            Finding(row["finding"]).name.lower(),
            catalog.queues[row["queue_id"]].server,
            row["first"],
            row["count"],
            catalog.queues[row["pair"]].third if row["pair"] >= 0 else "",
            row["sequence"],
        )
        for row in rows
        if not row["is_total"] and row["finding"] != EXPLAINED_ROW
    }


def test_the_very_messages_are_lost_twice_or_from_nowhere(tmp_path: Path) -> None:
    """Planted on both sides; as many others are still in the queue, or were dropped."""
    book, q = broker(tmp_path / "a")
    publisher = book.publisher(SESSION)
    # Sequence 50 never arrives, 100 does though nobody published it.
    book.add(form.ENQUEUED, q, 1, 50, 1, publisher, 1)
    book.add(form.ENQUEUED, q, 51, 50, 1, publisher, 52)
    book.add(form.DELIVERED, q, 1, 80)
    # Position 20, sequence 19, is given out twice.
    book.add(form.DELIVERED, q, 20, 1)
    book.add(form.ACKNOWLEDGED, q, 1, 80)
    book.add(form.DROPPED, q, 81, 5)
    clients = client(tmp_path / "c", (1, 0))
    # Sequence 30 is acknowledged, and no consumer has seen it; 3 came twice.
    name = 1
    clients.add(form.RECEIVED, name, 0, 30)
    clients.add(form.RECEIVED, name, 31, 19)
    clients.add(form.RECEIVED, name, 51, 30)
    clients.add(form.RECEIVED, name, 3, 1)
    found = judged(catalog_of(book.write(), clients.write()))
    assert found == {
        ("redelivered_unflagged", "a", 20, 1, "p", 19),
        ("lost", "", 30, 1, "", -1),
        ("lost", "", 50, 1, "", -1),
        ("duplicate_unflagged", "", 3, 1, "", -1),
        ("never_published", "", 100, 1, "", -1),
    }


def test_a_message_is_known_by_its_name_after_a_restart(tmp_path: Path) -> None:
    book, q = broker(tmp_path / "a")
    book.add(form.ENQUEUED, q, 1, 10, 1, book.publisher(SESSION), 1)
    book.write()
    again, q = broker(tmp_path / "a", 2)
    # Position 4, sequence 3, did not come back, and 8 is delivered and settled.
    again.add(form.RESTORED, q, 1, 3)
    again.add(form.RESTORED, q, 5, 6)
    again.add(form.DELIVERED, q, 8, 1)
    again.add(form.ACKNOWLEDGED, q, 8, 1)
    clients = client(tmp_path / "c", (1, 0), messages=10)
    found = judged(catalog_of(again.write(), clients.write()))
    assert found == {
        ("missing_after_restart", "a", 4, 1, "p", 3),
        ("lost", "", 3, 1, "", -1),
        ("lost", "", 7, 1, "", -1),
    }


def test_what_went_into_a_stream_is_there(tmp_path: Path) -> None:
    book = Book(tmp_path / "a", form.BROKER_MAGIC)
    book.add(form.STARTED)
    q = book.name("/", "q", flags=form.IS_STREAM)
    book.add(form.ENQUEUED, q, 0, 99, 1, book.publisher(SESSION), 1)
    found = judged(catalog_of(book.write(), client(tmp_path / "c", (1, 0)).write()))
    assert found == {("lost", "", 99, 1, "", -1)}
