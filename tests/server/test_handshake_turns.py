"""Many handshakes at once: a few in each turn of the loop, in the order in which they came."""

from collections.abc import Callable

from penstock.server.handshake_turns import STEPS_PER_TURN, HandshakeStep, HandshakeTurns


class Turns:
    """An event loop's next turn. Held by one test."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.handshakes = HandshakeTurns(self.due.append)
        self.taken: list[str] = []

    def step(self, name: str) -> "Step":
        return Step(self, name)

    def turn(self) -> None:
        due = list(self.due)
        self.due.clear()
        for call in due:
            call()


class Step(HandshakeStep):
    def __init__(self, turns: Turns, name: str) -> None:
        self._turns = turns
        self._name = name

    def shake_hands(self) -> None:
        self._turns.taken.append(self._name)


def test_a_few_are_taken_in_each_turn() -> None:
    turns = Turns()
    names = [str(number) for number in range(2 * STEPS_PER_TURN + 1)]
    for name in names:
        turns.handshakes.add(turns.step(name))
    counts = []
    while turns.due:
        turns.turn()
        counts.append(len(turns.taken))
    assert counts == [STEPS_PER_TURN, 2 * STEPS_PER_TURN, 2 * STEPS_PER_TURN + 1]
    assert turns.taken == names


def test_one_that_speaks_twice_has_one_turn_and_one_that_is_gone_has_none() -> None:
    turns = Turns()
    first, gone = turns.step("first"), turns.step("gone")
    turns.handshakes.add(first)
    turns.handshakes.add(gone)
    turns.handshakes.add(first)
    turns.handshakes.discard(gone)
    turns.turn()
    assert turns.taken == ["first"]
    assert turns.due == []
    turns.handshakes.add(first)
    turns.turn()
    assert turns.taken == ["first", "first"]
