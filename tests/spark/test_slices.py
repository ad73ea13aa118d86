"""A slice read batch by batch out of one range, without Spark or a broker."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.spark.segments import BATCH_ROWS, RowDecoder, read_index
from penstock.spark.slices import read_rows
from penstock.wire.amqp091.content import BasicProperties, encode_header
from tests.spark.rows_written import Row, written

POSITION = 32
COUNT = 2 * BATCH_ROWS + 5


class OctetsInOrder:
    """Stands for a range on its way here."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self.read = 0

    def fill(self, octets: memoryview) -> None:
        octets[:] = self._octets[self.read : self.read + len(octets)]
        self.read += len(octets)


@pytest.mark.parametrize("gap", [0, 7])
def test_batches_follow_one_another_out_of_one_range(gap: int) -> None:
    head = encode_header(0, BasicProperties())
    rows = [Row(b"", b"k", head, b"%d" % number) for number in range(COUNT)]
    octets, log, size = written(rows, POSITION)
    index = np.array(read_index(octets))
    cut = int(index["position"][BATCH_ROWS]) - POSITION
    index["position"][BATCH_ROWS:] += gap
    reading = OctetsInOrder(bytes(log[:cut] + bytes(gap) + log[cut:size]))
    decoder = RowDecoder(("offset", "body"), "s", 0)
    batches = list(read_rows(reading, decoder, index, 1000))
    assert [len(batch) for batch in batches] == [BATCH_ROWS, BATCH_ROWS, 5]
    found = [pair for batch in batches for pair in zip(*batch.to_pydict().values(), strict=True)]
    assert found == [(1000 + number, b"%d" % number) for number in range(COUNT)]
    assert reading.read == size + gap
