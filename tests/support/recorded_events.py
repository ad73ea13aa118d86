"""An event log that keeps what it is told."""

from penstock.broker.events import Event, EventKind, EventLog


class RecordedEvents(EventLog):
    """Held by a test."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        self.events.append(event)

    @property
    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]

    def of(self, kind: EventKind) -> Event:
        [found] = [event for event in self.events if event.kind is kind]
        return found
