from penstock.broker.access.login_delay import (
    COMPARISON_MS,
    DELAY_MS_MAX,
    FAILURES_MAX,
    FIRST_DELAY_MS,
    FORGIVEN_AFTER_MS,
    PAIRS_MAX,
    LoginDelays,
)


def test_each_failure_doubles_the_delay_up_to_a_limit() -> None:
    delays = LoginDelays()
    waited = [delays.failed("u", "host", 0) for _ in range(FAILURES_MAX * 2)]
    assert waited[:3] == [FIRST_DELAY_MS, FIRST_DELAY_MS * 2, FIRST_DELAY_MS * 4]
    assert waited == sorted(waited)
    assert waited[-1] == DELAY_MS_MAX


def test_other_hosts_and_users_are_not_delayed() -> None:
    delays = LoginDelays()
    for _ in range(5):
        delays.failed("u", "host", 0)
    assert delays.failed("u", "other", 0) == FIRST_DELAY_MS
    assert delays.failed("other", "host", 0) == FIRST_DELAY_MS


def test_failures_are_forgiven_with_time_and_at_once_by_a_good_login() -> None:
    delays = LoginDelays()
    for _ in range(3):
        delays.failed("u", "host", 0)
    assert delays.failed("u", "host", FORGIVEN_AFTER_MS * 2) == FIRST_DELAY_MS * 2
    assert delays.failed("u", "host", FORGIVEN_AFTER_MS * 100) == FIRST_DELAY_MS
    delays.failed("u", "host", FORGIVEN_AFTER_MS * 100)
    delays.succeeded("u", "host")
    assert delays.failed("u", "host", FORGIVEN_AFTER_MS * 100) == FIRST_DELAY_MS


def test_the_worst_case_is_forgiven_in_minutes() -> None:
    delays = LoginDelays()
    for _ in range(1000):
        delays.failed("u", "host", 0)
    later = FORGIVEN_AFTER_MS * FAILURES_MAX
    assert delays.failed("u", "host", later) == FIRST_DELAY_MS


def test_the_table_is_bounded_and_forgets_the_oldest() -> None:
    delays = LoginDelays()
    for number in range(PAIRS_MAX):
        delays.failed(f"user {number}", "host", 0)
    delays.failed("user 0", "host", 1)
    delays.failed("one more", "host", 2)
    assert delays.pair_count == PAIRS_MAX
    assert delays.failed("user 0", "host", 3) == FIRST_DELAY_MS * 4
    assert delays.failed("user 1", "host", 3) == FIRST_DELAY_MS


def test_no_password_of_the_pair_is_checked_while_a_failure_waits_for_its_answer() -> None:
    delays = LoginDelays()
    assert delays.check_at("u", "host") == 0
    delays.failed("u", "host", 1000)
    delay = delays.failed("u", "host", 1000)
    assert delays.check_at("u", "host") == 1000 + delay
    assert delays.check_at("u", "other") == 0
    assert delays.check_at("other", "host") == 0
    delays.succeeded("u", "host")
    assert delays.check_at("u", "host") == 0


def test_what_a_login_has_waited_for_its_check_is_part_of_its_delay() -> None:
    delays = LoginDelays()
    assert delays.failed("u", "host", 0, 30) == FIRST_DELAY_MS - 30
    assert delays.failed("u", "host", 0, DELAY_MS_MAX) == 0
    # The next one waits in full all the same.
    assert delays.check_at("u", "host") == FIRST_DELAY_MS * 2


def test_a_password_that_was_compared_in_vain_puts_off_the_next_comparison() -> None:
    delays = LoginDelays()
    assert delays.may_compare("u", "host", 0)
    delays.mismatched("u", "host", 0)
    assert not delays.may_compare("u", "host", COMPARISON_MS - 1)
    assert delays.may_compare("u", "other", 0)
    assert delays.may_compare("u", "host", COMPARISON_MS)
    # It is no failure yet: the check will say so.
    assert delays.check_at("u", "host") == 0
