"""The books: loss, duplicates and disorder are seen, and nothing else is."""

from penstock.cli.loading.arrivals import GROWTH, Account, Arrivals, ArrivalsPage


def page(*arrivals: tuple[int, bool]) -> ArrivalsPage:
    ledger = Arrivals()
    for sequence, redelivered in arrivals:
        ledger.enter(sequence, redelivered)
    return ledger.page()


def settled(sent: int, *pages: ArrivalsPage, unpromised: frozenset[int] = frozenset()) -> Account:
    account = Account()
    account.settle("q", 0, sent, unpromised, list(pages))
    return account


def test_all_in_order_is_a_clean_account() -> None:
    assert settled(3, page((0, False), (1, False), (2, False))) == Account(received=3)


def test_what_never_came_is_lost_and_named() -> None:
    account = settled(4, page((0, False), (2, False)))
    assert (account.received, account.lost) == (2, 2)
    assert account.examples_lost == [("q", 0, 1), ("q", 0, 3)]


def test_what_no_sink_saw_is_lost_entirely() -> None:
    assert settled(5).lost == 5


def test_what_the_broker_never_promised_is_not_lost() -> None:
    account = settled(2, page((0, False)), unpromised=frozenset({1}))
    assert (account.lost, account.not_promised) == (0, 1)


def test_a_second_arrival_is_a_duplicate_flagged_or_not() -> None:
    account = settled(2, page((0, False), (0, True), (1, False), (1, False)))
    assert (account.duplicates_flagged, account.duplicates_unflagged) == (1, 1)
    assert account.received == 2


def test_an_older_message_after_a_newer_one_is_out_of_order() -> None:
    assert settled(3, page((1, False), (0, False), (2, False))).out_of_order == 1


def test_a_redelivery_may_come_late() -> None:
    assert settled(2, page((1, False), (0, True))).out_of_order == 0


def test_sinks_that_share_a_queue_are_added_up() -> None:
    account = settled(4, page((0, False), (2, False)), page((1, False), (3, False)))
    assert account == Account(received=4)


def test_one_message_in_two_sinks_is_a_duplicate() -> None:
    account = settled(2, page((0, False), (1, False)), page((0, True), (1, False)))
    assert (account.duplicates_flagged, account.duplicates_unflagged) == (1, 1)


def test_a_message_whose_faucet_died_before_counting_it_still_counts_as_received() -> None:
    assert settled(1, page((0, False), (1, False))).received == 2


def test_the_ledger_grows_with_the_sequence() -> None:
    ledger = Arrivals()
    assert ledger.enter(3 * GROWTH, redelivered=False)
    assert not ledger.enter(3 * GROWTH, redelivered=True)
    assert settled(3 * GROWTH + 1, ledger.page()).received == 1
