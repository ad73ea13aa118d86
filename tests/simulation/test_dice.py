"""Dice: fixed by their name, within their bounds, independent of their neighbours."""

from tests.simulation.doubles import dice_of


def test_the_same_name_throws_the_same() -> None:
    one, other = dice_of(1).fork("network"), dice_of(1).fork("network")
    assert [one.between(0, 1000) for _ in range(20)] == [other.between(0, 1000) for _ in range(20)]
    assert one.octets(16) == other.octets(16)
    assert dice_of(1).octets(16) != dice_of(2).octets(16)


def test_a_fork_does_not_move_the_dice_it_came_from() -> None:
    one, other = dice_of(1), dice_of(1)
    one.fork("network").fraction()
    assert one.fraction() == other.fraction()


def test_throws_reach_both_bounds_and_weights_count() -> None:
    dice = dice_of(3)
    assert {dice.between(1, 3) for _ in range(100)} == {1, 2, 3}
    assert {dice.choose("ab") for _ in range(100)} == {"a", "b"}
    drawn = [dice.weighted((("often", 9), ("seldom", 1), ("never", 0))) for _ in range(300)]
    assert 0 < drawn.count("seldom") < 100 < drawn.count("often")
    assert "never" not in drawn
