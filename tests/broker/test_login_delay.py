from penstock.broker.login_delay import (
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
