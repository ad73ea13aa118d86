"""How much each user may have open at once."""

from penstock.broker.access.user_limits import UserLimits
from penstock.broker.topology import SetUserLimits


def test_a_user_of_whom_nothing_is_said_has_no_limits() -> None:
    limits = UserLimits()
    assert limits.of("ann") == SetUserLimits("ann", -1, -1)
    assert limits.listed() == []


def test_limits_are_replaced_as_a_whole_and_forgotten() -> None:
    limits = UserLimits()
    limits.put(SetUserLimits("ann", 3, 4))
    limits.put(SetUserLimits("ann", max_channels=5))
    assert limits.listed() == [SetUserLimits("ann", -1, 5)]
    limits.forget("ann")
    limits.forget("unknown")
    assert limits.of("ann").max_channels == -1


def test_to_set_no_limit_is_to_have_none() -> None:
    limits = UserLimits()
    limits.put(SetUserLimits("ann", 3, 4))
    limits.put(SetUserLimits("ann"))
    assert limits.listed() == []
