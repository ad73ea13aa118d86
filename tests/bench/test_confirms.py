import random

import pytest

from bench import frames
from bench.confirms import ConfirmLedger, PublishRefusedError


def test_single_confirms_count_once_each_in_any_order() -> None:
    tags = list(range(1, 201))
    random.Random(7).shuffle(tags)
    ledger = ConfirmLedger()
    for number, tag in enumerate(tags, start=1):
        ledger.feed(frames.acknowledge(tag, multiple=False))
        assert ledger.count == number


def test_a_multiple_confirm_covers_everything_below_it_and_nothing_twice() -> None:
    ledger = ConfirmLedger()
    ledger.feed(frames.acknowledge(3, multiple=False))
    ledger.feed(frames.acknowledge(9, multiple=False))
    ledger.feed(frames.acknowledge(5, multiple=True))
    assert ledger.count == 6
    ledger.feed(frames.acknowledge(8, multiple=True))
    assert ledger.count == 9


def test_a_late_confirm_of_what_is_confirmed_changes_nothing() -> None:
    ledger = ConfirmLedger()
    ledger.feed(frames.acknowledge(5, multiple=True))
    ledger.feed(frames.acknowledge(2, multiple=False) + frames.acknowledge(4, multiple=True))
    assert ledger.count == 5


def test_confirms_may_be_cut_anywhere_between_reads() -> None:
    stream = b"".join(frames.acknowledge(tag, multiple=False) for tag in range(1, 6))
    for cut in range(len(stream)):
        ledger = ConfirmLedger()
        ledger.feed(stream[:cut])
        ledger.feed(stream[cut:])
        assert ledger.count == 5


def test_a_nack_is_refused() -> None:
    nack = frames.method(1, frames.BASIC_NACK, (1).to_bytes(8, "big") + b"\0")
    with pytest.raises(PublishRefusedError):
        ConfirmLedger().feed(nack)
