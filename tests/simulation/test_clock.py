"""Virtual time: order, ties, cancelling."""

from penstock.simulation.clock import VirtualClock


def test_events_run_in_order_of_time_and_ties_in_order_of_asking() -> None:
    clock = VirtualClock()
    seen: list[str] = []
    clock.after(20, lambda: seen.append("later"))
    clock.after(10, lambda: seen.append("first"))
    clock.after(10, lambda: seen.append("second"))
    clock.run(15)
    assert seen == ["first", "second"]
    clock.run(15)
    assert seen == ["first", "second", "later"]


def test_what_an_event_asks_for_within_the_time_still_happens() -> None:
    clock = VirtualClock()
    start = clock.microseconds
    seen: list[int] = []

    def note() -> None:
        seen.append(clock.microseconds - start)

    def ask() -> None:
        clock.after(5, note)

    clock.after(10, ask)
    clock.run(15)
    assert seen == [15]


def test_a_cancelled_event_does_not_happen() -> None:
    clock = VirtualClock()
    seen: list[str] = []
    clock.after(10, lambda: seen.append("cancelled")).cancel()
    clock.run(20)
    assert seen == []


def test_nodes_see_milliseconds_that_never_go_back() -> None:
    clock = VirtualClock()
    before = clock.now(), clock.wall()
    clock.run(2_500)
    assert (clock.now() - before[0], clock.wall() - before[1]) == (2, 2)
