"""Reasons why publishers are blocked: memory or disk is low, or a cluster has too few copies."""

from penstock.broker.events import Event, EventKind, Party, Severity
from penstock.dialects.container import Container


class Alarms:
    """Held by the node."""

    def __init__(self, container: Container) -> None:
        self._container: Container = container
        # By source; empty when it has no reason.
        self.reasons: dict[str, str] = {}

    def set(self, source: str, reason: str, figures: dict[str, object] | None) -> bool:
        """Returns whether what publishers are told has changed."""
        if self.reasons.get(source, "") == reason:
            return False
        self.reasons[source] = reason
        alarm = ", ".join([reason for reason in self.reasons.values() if reason])
        if alarm == self._container.alarm:
            return False
        self._container.alarm = alarm
        kind = EventKind.ALARM_RAISED if reason else EventKind.ALARM_CLEARED
        severity = Severity.WARNING if reason else Severity.INFO
        facts: dict[str, object] = {"source": source, "publishers": alarm or "go on"}
        facts.update(figures or {})
        self._container.events.record(Event(kind, severity, Party(), reason, facts))
        return True
