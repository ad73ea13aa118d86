"""The part of a stream that one task reads: planned on the driver, read on an executor.

Ranges of offsets are cut anywhere: an index entry has a fixed width, so any message can be the
first. A slice names the segments it needs, so that an executor asks the broker for octets only.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
from pyspark.sql.datasource import InputPartition

from penstock.formats.stream_index import ENTRY_SIZE
from penstock.spark.broker_streams import (
    Segment,
    segment_path,
    segment_tag,
    segments_of,
)
from penstock.spark.errors import BrokerRefused, DataLost, StreamReplaced
from penstock.spark.http_client import BrokerClient, client_for
from penstock.spark.progress import lose, lost_range
from penstock.spark.segments import (
    SPARE_BYTES,
    RowDecoder,
    batch_extents,
    cuts,
    log_end,
    read_index,
)
from penstock.spark.worker_memory import settle_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from penstock.spark.options import ReadOptions
    from penstock.spark.progress import Extent
    from penstock.spark.segments import Column

# Of an index, in one request: 8 MiB. A request costs the broker as much as 10 MB of octets.
INDEX_ROWS: Final = 262_144
# Of a log, in one request, unless one message has more.
LOG_BYTES: Final = 32 * 1024 * 1024
# A task of more octets than this waits longer for its network than Spark takes to start one.
SLICE_BYTES: Final = 128 * 1024 * 1024


class Piece(NamedTuple):
    """Offsets within one segment, which its first offset names."""

    segment: int
    start: int
    end: int


@dataclass
class StreamSlice(InputPartition):
    """One task's work. Pickled by Spark."""

    stream: str
    parent: str
    number: int
    identity: str
    pieces: tuple[Piece, ...]

    def __init__(
        self, stream: str, parent: str, number: int, identity: str, pieces: tuple[Piece, ...]
    ) -> None:
        super().__init__(stream)
        self.stream = stream
        self.parent = parent
        self.number = number
        self.identity = identity
        self.pieces = pieces


def plan_slices(
    client: BrokerClient, extents: list[Extent], options: ReadOptions
) -> list[InputPartition]:
    """As many as the options ask for, each stream cut into equal parts."""
    total = sum(extent.end - extent.start for extent in extents)
    rows_max = min(options.rows_per_partition, -(-total // options.partitions_min))
    slices: list[InputPartition] = []
    for extent in extents:
        stream = extent.stream
        segments = segments_of(client, stream, extent.start, extent.end)
        count = extent.end - extent.start
        mean = max([segment.mean_bytes() for segment in segments], default=1.0)
        rows = max(1, min(rows_max, int(SLICE_BYTES / max(1.0, mean))))
        parts = -(-count // rows)
        for part in range(parts):
            start = extent.start + count * part // parts
            end = extent.start + count * (part + 1) // parts
            slices.append(
                StreamSlice(
                    stream.name,
                    stream.parent,
                    stream.number,
                    stream.identity,
                    _pieces(segments, start, end),
                )
            )
    return slices


def _pieces(segments: list[Segment], start: int, end: int) -> tuple[Piece, ...]:
    pieces = [
        Piece(segment.first, max(start, segment.first), min(end, segment.end))
        for segment in segments
        if segment.end > start and segment.first < end
    ]
    if not pieces:
        # Retention has removed it before the plan was made; reading detects and reports that.
        return (Piece(start, start, end),)
    if pieces[0].start > start:
        pieces.insert(0, Piece(start, start, pieces[0].start))
    return tuple(pieces)


def read_slice(wanted: StreamSlice, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """On an executor."""
    settle_worker()
    client = client_for(options.access)
    decoder = RowDecoder(
        options.columns, wanted.parent, wanted.number, options.row_filter, options.verify
    )
    for piece in wanted.pieces:
        try:
            yield from _read_piece(client, decoder, wanted, piece)
        except BrokerRefused as refusal:
            lose(_loss_of(refusal, wanted, piece), options.fail_on_loss)


def _read_piece(
    client: BrokerClient, decoder: RowDecoder, wanted: StreamSlice, piece: Piece
) -> Iterator[pa.RecordBatch]:
    index_path = segment_path(client, wanted.stream, piece.segment, "index")
    log_path = segment_path(client, wanted.stream, piece.segment, "log")
    index_tag = segment_tag(wanted.identity, piece.segment, "index")
    log_tag = segment_tag(wanted.identity, piece.segment, "log")
    for first in range(piece.start, piece.end, INDEX_ROWS):
        count = min(INDEX_ROWS, piece.end - first)
        at = ENTRY_SIZE * (1 + first - piece.segment)
        index = read_index(client.read_range(index_path, at, count * ENTRY_SIZE, index_tag))
        for start, end in log_extents(index):
            rows = index[start:end]
            position = int(rows["position"][0])
            size = log_end(rows) - position
            with client.open_range(log_path, position, size, log_tag) as reading:
                yield from read_rows(reading, decoder, rows, first + start)


class Reading(Protocol):
    """Consecutive bytes, as a range returns them."""

    def fill(self, octets: memoryview) -> None: ...


def read_rows(
    reading: Reading, decoder: RowDecoder, index: Column, first: int
) -> Iterator[pa.RecordBatch]:
    """A batch is decoded as soon as its octets are here, and in the same memory as the one before:
    that is in the processor's cache, and fresh memory would cost a tenth of a task.
    """
    for start, end in batch_extents(index):
        rows = index[start:end]
        position = int(rows["position"][0])
        # Up to where the next batch begins, since that is read from there on.
        following = log_end(rows) if end == len(index) else int(index["position"][end])
        size = following - position
        log = _buffer(size + SPARE_BYTES)
        reading.fill(memoryview(log)[:size])
        batch = decoder.batch(rows, log, size, position, first + start)
        if batch.num_rows:
            yield batch


_buffers = threading.local()


def _buffer(size: int) -> bytearray:
    """This thread's buffer, of at least this size. Batches copy out of it, so the next one may
    reuse it.
    """
    buffer: bytearray | None = getattr(_buffers, "log", None)
    if buffer is None or len(buffer) < size:
        buffer = _buffers.log = bytearray(size)
    return buffer


def log_extents(index: Column) -> Iterator[tuple[int, int]]:
    """Rows whose payloads are read at once: LOG_BYTES of them, or one that has more."""
    ends = cuts(index)
    start = 0
    while start < len(index):
        limit = int(index["position"][start]) + LOG_BYTES
        end = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield start, end
        start = end


def _loss_of(refusal: BrokerRefused, wanted: StreamSlice, piece: Piece) -> DataLost:
    """The data loss that a refusal means for the rows of a piece; raises the refusal itself
    otherwise.
    """
    if refusal.status == 412:
        return StreamReplaced(f"stream '{wanted.stream}' was deleted and declared again")
    if refusal.status == 410:
        return lost_range(wanted.stream, piece.start, piece.end)
    if refusal.status in {404, 416}:
        return DataLost(
            f"offsets {piece.start} to {piece.end - 1} of stream '{wanted.stream}' are not there "
            f"any more: {refusal.facts.get('reason', refusal)}"
        )
    raise refusal
