"""So many lines of each kind from each peer, and what was left out."""

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from penstock.broker.events import Event, EventKind, Party, Severity
from penstock.server.event_lines import COUNTS_MAX, LINES_MAX, PERIOD_MS, EventLines
from penstock.server.log_lines import configure
from penstock.server.log_settings import LogConfiguration
from tests.server.doubles import HandClock


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    file = io.StringIO()
    before = structlog.get_config()
    configure(LogConfiguration("debug", "json"), file)
    yield file
    structlog.configure(**before)


def refused(peer: str, kind: EventKind = EventKind.LOGIN_REFUSED) -> Event:
    party = Party(7, peer, 40112, "ann", "/")
    return Event(kind, Severity.WARNING, party, "wrong password", {})


def lines(file: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_a_line_says_who_and_why(written: io.StringIO) -> None:
    EventLines(HandClock()).record(refused("192.0.2.7"))
    [line] = lines(written)
    assert line.pop("timestamp")
    assert line == {
        "level": "warning",
        "event": "login refused",
        "user": "ann",
        "peer": "192.0.2.7:40112",
        "vhost": "/",
        "connection": 7,
        "reason": "wrong password",
    }


def test_what_is_not_known_is_left_out(written: io.StringIO) -> None:
    event = Event(EventKind.VHOST_ADDED, Severity.INFO, Party(vhost="v"), "", {"tags": ""})
    EventLines(HandClock()).record(event)
    [line] = lines(written)
    assert set(line) == {"timestamp", "level", "event", "vhost"}


def test_a_zero_is_known(written: io.StringIO) -> None:
    event = Event(EventKind.LIMITS_SET, Severity.INFO, Party(vhost="v"), "", {"max_queues": 0})
    EventLines(HandClock()).record(event)
    assert lines(written)[0]["max_queues"] == 0


def test_no_line_of_the_audit_log_is_left_out(written: io.StringIO) -> None:
    events = EventLines(HandClock())
    party = Party(peer_host="192.0.2.7", user="ann")
    for _ in range(3 * LINES_MAX):
        event = Event(EventKind.USER_SET, Severity.INFO, party, "", {"by": "root"}, is_audit=True)
        events.record(event)
    assert len(lines(written)) == 3 * LINES_MAX
    assert {line["by"] for line in lines(written)} == {"root"}


def test_one_peers_noise_hides_nobody_and_is_counted(written: io.StringIO) -> None:
    clock = HandClock()
    events = EventLines(clock)
    for _ in range(LINES_MAX + 30):
        events.record(refused("192.0.2.7"))
    events.record(refused("192.0.2.7", EventKind.ACCESS_DENIED))
    events.record(refused("192.0.2.8"))
    assert len(lines(written)) == LINES_MAX + 2
    clock.milliseconds += PERIOD_MS
    events(clock.now())
    last = lines(written)[-1]
    assert (last["event"], last["event_kind"], last["count"]) == (
        "log lines suppressed",
        "login refused",
        30,
    )
    assert last["peer"] == "192.0.2.7"
    # In the next period it may speak again.
    events.record(refused("192.0.2.7"))
    assert lines(written)[-1]["event"] == "login refused"


def test_what_was_left_out_is_said_at_the_end_too(written: io.StringIO) -> None:
    events = EventLines(HandClock())
    for _ in range(LINES_MAX + 1):
        events.record(refused("192.0.2.7"))
    events.end()
    assert lines(written)[-1]["count"] == 1


def test_many_addresses_share_one_count(written: io.StringIO) -> None:
    clock = HandClock()
    events = EventLines(clock)
    for number in range(COUNTS_MAX + LINES_MAX + 50):
        events.record(refused(f"2001:db8::{number:x}"))
    assert len(lines(written)) == COUNTS_MAX + LINES_MAX
    clock.milliseconds += PERIOD_MS
    events(clock.now())
    assert (lines(written)[-1]["peer"], lines(written)[-1]["count"]) == ("other peers", 50)
