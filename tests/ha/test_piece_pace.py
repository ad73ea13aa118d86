"""How fast a SYNC may go beside clients, and that it goes at full speed without them."""

from penstock.ha.piece_pace import BUSY_MS, UNLIMITED, PiecePace


def test_without_clients_there_is_no_limit() -> None:
    pace = PiecePace(10, 1_000)
    assert pace.allowance(5) == UNLIMITED
    pace.sent(1 << 40)
    assert pace.allowance(5) == UNLIMITED


def test_while_clients_publish_pieces_have_a_rate() -> None:
    pace = PiecePace(10, 1_000)
    sent = 0
    for now in range(1, 1_001):
        pace.operation_made(now)
        while pace.allowance(now) > 0:
            pace.sent(64)
            sent += 64
    # What may be sent at once, and then the rate.
    assert 10_900 <= sent <= 11_000 + 64


def test_a_piece_that_is_larger_than_the_allowance_is_paid_for_later() -> None:
    pace = PiecePace(10, 1_000)
    pace.operation_made(1)
    assert pace.allowance(1) == 1_000
    pace.sent(1_500)
    pace.operation_made(40)
    assert pace.allowance(40) < 0
    pace.operation_made(60)
    assert pace.allowance(60) > 0


def test_what_was_saved_up_is_bounded() -> None:
    pace = PiecePace(10, 100)
    pace.operation_made(1_000_000)
    pace.sent(60)
    for now in range(1_000_000, 1_000_100, 10):
        pace.operation_made(now)
    assert pace.allowance(1_000_100) == 100


def test_the_limit_ends_a_moment_after_the_last_operation() -> None:
    pace = PiecePace(10, 1_000)
    pace.operation_made(100)
    pace.sent(1 << 40)
    assert pace.allowance(100 + BUSY_MS - 1) < 0
    assert pace.allowance(100 + BUSY_MS) == UNLIMITED
