"""What a node tells of alarms and of what an operator does."""

from penstock.broker.events import EventKind, Severity
from penstock.broker.topology import AddVhost, DeclareQueue, SetPolicy
from tests.seeds.doubles import House
from tests.support.recorded_events import RecordedEvents


def told(house: House) -> RecordedEvents:
    events = RecordedEvents()
    house.node.container.events = events
    return events


def test_an_alarm_is_told_when_it_is_raised_and_when_it_is_over() -> None:
    house = House()
    events = told(house)
    for reason in ("low on memory", "low on memory", ""):
        house.node.set_alarm("memory", reason, 1)
    assert events.kinds == [EventKind.ALARM_RAISED, EventKind.ALARM_CLEARED]
    raised, cleared = events.events
    assert (raised.severity, raised.reason) == (Severity.WARNING, "low on memory")
    assert raised.facts["source"] == "memory"
    assert cleared.severity is Severity.INFO


def test_the_figures_behind_an_alarm_are_told_with_it() -> None:
    house = House()
    events = told(house)
    house.node.set_alarm("disk", "low on disk", 1, {"free": 5})
    assert events.events[0].facts["free"] == 5


def test_of_two_alarms_both_are_told() -> None:
    house = House()
    events = told(house)
    for source, reason in (("memory", "low on memory"), ("disk", "low on disk"), ("memory", "")):
        house.node.set_alarm(source, reason, 1)
    assert events.kinds == [
        EventKind.ALARM_RAISED,
        EventKind.ALARM_RAISED,
        EventKind.ALARM_CLEARED,
    ]
    assert events.events[-1].facts == {"source": "memory", "publishers": "low on disk"}


def test_what_an_operator_changes_is_told() -> None:
    house = House()
    events = told(house)
    node = house.node
    node.apply(AddVhost("v"), 1)
    node.apply_to_vhost("v", SetPolicy("p", "^q", {"max-length": 1}), 1)
    node.apply_to_vhost("v", DeclareQueue("q"), 1)
    assert events.kinds == [EventKind.VHOST_ADDED, EventKind.POLICY_SET]
