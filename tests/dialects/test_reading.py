"""Why a connection is not read: several reasons, each taken back for itself."""

from __future__ import annotations

import pytest

from penstock.dialects.reading import ALARM, LOGIN, TURN, Reading
from tests.seeds.doubles import CountingTransport


@pytest.mark.parametrize(
    ("steps", "reads"),
    [
        ([], True),
        ([("stop", ALARM)], False),
        ([("stop", ALARM), ("go_on", ALARM)], True),
        ([("stop", ALARM), ("stop", TURN), ("go_on", ALARM)], False),
        ([("stop", ALARM), ("stop", TURN), ("go_on", TURN), ("go_on", ALARM)], True),
        ([("stop", LOGIN), ("go_on", TURN)], False),
        ([("go_on", LOGIN)], True),
        ([("stop", TURN), ("stop", TURN), ("go_on", TURN)], True),
        ([("stop", ALARM), ("stop", LOGIN), ("go_on", ALARM | LOGIN)], True),
        ([("stop", LOGIN), ("stop", TURN), ("go_on", ALARM | LOGIN)], False),
    ],
    ids=str,
)
def test_a_transport_is_read_while_there_is_no_reason_not_to(
    steps: list[tuple[str, int]], reads: bool
) -> None:
    transport = CountingTransport()
    reading = Reading(transport)
    for step, reason in steps:
        getattr(reading, step)(reason)
    assert transport.is_reading == reads
    assert reading.is_stopped() == (not reads)
