"""Timers fire in order of their due times, once, and only when they still are due."""

from penstock.broker.timers import NEVER, Timer, Timers


class Bell(Timer):
    def __init__(self, name: str, rung: list[str]) -> None:
        super().__init__()
        self.name = name
        self.rung = rung

    def fire(self, now: int) -> None:
        self.rung.append(f"{self.name}@{now}")


def test_timers_fire_in_order_of_due_time_and_then_of_scheduling() -> None:
    timers, rung = Timers(), list[str]()
    for name, due in (("c", 30), ("a", 10), ("b", 10)):
        timers.schedule(Bell(name, rung), due)
    assert timers.next_due() == 10
    timers.fire_due(30)
    assert rung == ["a@30", "b@30", "c@30"]
    assert timers.next_due() == NEVER


def test_a_moved_timer_fires_once_at_its_new_time() -> None:
    timers, rung = Timers(), list[str]()
    bell = Bell("a", rung)
    timers.schedule(bell, 10)
    timers.schedule(bell, 20)
    timers.fire_due(15)
    assert rung == []
    timers.fire_due(25)
    timers.fire_due(99)
    assert rung == ["a@25"]


def test_a_cancelled_timer_does_not_fire() -> None:
    timers, rung = Timers(), list[str]()
    bell = Bell("a", rung)
    timers.schedule(bell, 10)
    timers.cancel(bell)
    assert timers.next_due() == NEVER
    timers.fire_due(99)
    assert rung == []


def test_a_timer_moved_to_where_it_was_before_fires_once() -> None:
    timers, rung = Timers(), list[str]()
    bell = Bell("a", rung)
    timers.schedule(bell, 10)
    timers.schedule(bell, 20)
    timers.schedule(bell, 10)
    timers.fire_due(99)
    assert rung == ["a@99"]
