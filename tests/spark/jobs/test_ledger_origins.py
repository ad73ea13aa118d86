"""Which message of a client's lies at which position: read from both ledgers, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.formats import ledger_records as form
from penstock.formats.replication_id import EPOCH_MAX, first_id
from penstock.spark.jobs import kinds as k
from penstock.spark.jobs.audit_steps import (
    EXPLAINED_ROW,
    PickBlocks,
    PickExplained,
    SweepBlocks,
)
from penstock.spark.jobs.chosen_blocks import ChosenBlocks, chosen_blocks
from penstock.spark.jobs.circumstances import circumstances
from penstock.spark.jobs.digests import digest
from penstock.spark.jobs.findings import Finding
from penstock.spark.jobs.ledger_catalog import Catalog, Role, build_catalog, find_places
from penstock.spark.jobs.ledger_origins import SEQUENCE_BITS
from penstock.spark.jobs.ledger_reading import read_slice
from penstock.spark.jobs.ledger_survey import survey
from penstock.spark.jobs.runs import BLOCK_BITS, Runs, cut, joined
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
    found = pa.Table.from_batches(
        SweepBlocks(circumstances(catalog), 20)(PickBlocks(all_blocks(runs))(iter([runs])))
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


def all_blocks(runs: Runs) -> ChosenBlocks:
    pieces = cut(runs)
    return chosen_blocks(pieces.runs.queue.astype(np.int64), pieces.block)


def judged(catalog: Catalog) -> set[tuple[str, str, int, int, str, int]]:
    """The second look over everything: findings with names, as the audit's examples."""
    runs = runs_of(catalog)
    blocks = all_blocks(runs)
    is_client = np.array([queue.role is Role.CLIENT for queue in catalog.queues])
    of_clients = is_client[blocks.queues()]
    step = SweepBlocks(circumstances(catalog), 20)
    of_queues = list(step(PickBlocks(blocks.where(~of_clients))(iter([runs]))))
    table = pa.Table.from_batches(of_queues)
    chosen = table.filter(pa.array(table.column("finding").to_numpy() == EXPLAINED_ROW))
    told = PickExplained(blocks.where(of_clients))(iter(chosen.to_batches()))
    picked = PickBlocks(blocks.where(of_clients))(iter([runs]))
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


def test_positions_of_a_cluster_are_told_apart_by_their_epochs(tmp_path: Path) -> None:
    """The same planted losses in every epoch of two queues, at the same counts."""
    epochs = (0, 3, 4, EPOCH_MAX)
    books = []
    expected = set()
    for server in "ab":
        book, q = broker(tmp_path / server)
        other = book.name("/", "other")
        for index, epoch in enumerate(epochs):
            first = first_id(epoch)
            tag = 1 + 100 * index
            book.add(form.ENQUEUED, q, first, 100, 1, book.publisher(f"{server} {index}"), tag)
            book.add(form.ENQUEUED, other, first, 10, 1)
            book.add(form.DELIVERED, other, first, 10)
            book.add(form.ACKNOWLEDGED, other, first, 10)
            book.add(form.DELIVERED, q, first, 100)
            # The twentieth of each epoch is given out twice.
            book.add(form.DELIVERED, q, first + 19, 1)
            book.add(form.ACKNOWLEDGED, q, first, 100)
            expected.add(
                ("redelivered_unflagged", server, first + 19, 1, f"p{index}", 100 * index + 19)
            )
        books.append(book.write())
    clients = Book(tmp_path / "c", form.CLIENT_MAGIC)
    for index in range(len(epochs)):
        clients.name("/", "", f"p{index}")
        clients.add(form.REACHES, clients.name("/", "q", f"p{index}"))
        for server in "ab":
            clients.session(f"{server} {index}", f"p{index}", (1, 0))
    found = judged(catalog_of(*books, clients.write()))
    assert {row for row in found if row[0] == "redelivered_unflagged"} == expected


def test_digests_keep_blocks_of_far_epochs_apart() -> None:
    epochs = (0, 1, EPOCH_MAX)
    places = [(queue, first_id(epoch)) for queue in (1, 5_000_000) for epoch in epochs]
    size = len(places)
    runs = Runs(
        queue=np.array([queue for queue, _ in places], dtype=np.int32),
        start=np.zeros(size, dtype=np.int32),
        kind=np.full(size, k.ENQUEUED_PERSISTENT, dtype=np.int16),
        time=np.zeros(size, dtype=np.int64),
        first=np.array([first for _, first in places], dtype=np.int64),
        count=np.full(size, 7, dtype=np.int64),
    )
    rows = digest(cut(runs)).to_pylist()
    told = {(row["queue_id"], row["block"], row[f"n{k.ENQUEUED_PERSISTENT}"]) for row in rows}
    assert told == {(queue, first >> BLOCK_BITS, 7) for queue, first in places}
