"""Why a connection is not read: several reasons, each taken back for itself."""

from __future__ import annotations

import pytest

from penstock.dialects.input_pause import ALARM, LOGIN, TURN, InputPause
from tests.seeds.doubles import CountingTransport


@pytest.mark.parametrize(
    ("steps", "reads"),
    [
        ([], True),
        ([("pause", ALARM)], False),
        ([("pause", ALARM), ("resume", ALARM)], True),
        ([("pause", ALARM), ("pause", TURN), ("resume", ALARM)], False),
        ([("pause", ALARM), ("pause", TURN), ("resume", TURN), ("resume", ALARM)], True),
        ([("pause", LOGIN), ("resume", TURN)], False),
        ([("resume", LOGIN)], True),
        ([("pause", TURN), ("pause", TURN), ("resume", TURN)], True),
        ([("pause", ALARM), ("pause", LOGIN), ("resume", ALARM | LOGIN)], True),
        ([("pause", LOGIN), ("pause", TURN), ("resume", ALARM | LOGIN)], False),
    ],
    ids=str,
)
def test_a_transport_is_read_while_there_is_no_reason_not_to(
    steps: list[tuple[str, int]], reads: bool
) -> None:
    transport = CountingTransport()
    input_pause = InputPause(transport)
    for step, reason in steps:
        getattr(input_pause, step)(reason)
    assert transport.is_reading == reads
    assert input_pause.is_paused() == (not reads)
