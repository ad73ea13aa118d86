"""There is one way to publish, `broker/publishing`, and nobody goes round it.

A source scan: what is enqueued, or routed, elsewhere is no publish, and stands here with its reason.
"""

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "penstock"
PUBLISHING = "broker/publishing/"

# Calls that put a message into a queue, and who finds queues for one.
ENQUEUEING = re.compile(r"\.(enqueue|enqueue_run|append_rows)\(")
ROUTING = re.compile(r"\bpublishing\.routing import|\bhold_back\(|\.admits\(|\bresolve_keys\(")

# Modules outside of `publishing` that enqueue, how often, and why that is no publish.
ALLOWED = {
    # Messages move from a queue to the lease that takes them, and back when it is given back.
    "broker/leases/leases.py": 2,
    # Blocks of rows are set apart until their commit; publishing them comes later.
    "broker/sinks/sinks.py": 1,
    # Streams take a sink's rows by the block, and remember which blocks they have.
    "broker/sinks/publish_batch.py": 1,
    # The broker's hottest function has `publish_plain` written out for messages without confirms.
    "dialects/amqp091/publish.py": 1,
}


def scan(folder: Path, pattern: re.Pattern[str]) -> dict[str, int]:
    """How often each module outside of `publishing` matches."""
    found: dict[str, int] = {}
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if not name.startswith(PUBLISHING):
            count = len(pattern.findall(path.read_text("utf-8")))
            if count:
                found[name] = count
    return found


def test_nobody_but_publishing_enqueues_what_is_published() -> None:
    assert scan(SOURCE, ENQUEUEING) == ALLOWED


def test_nobody_but_publishing_routes_delays_or_intercepts() -> None:
    assert scan(SOURCE, ROUTING) == {}


def test_the_interceptor_is_asked_in_one_place() -> None:
    calls = [
        path.name
        for path in SOURCE.rglob("*.py")
        for _ in re.findall(r"interceptor\.admits\(", path.read_text("utf-8"))
    ]
    assert calls == ["publish.py"]


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("    queue.enqueue(message, now)", ENQUEUEING),
        ("    queue.enqueue_run(entries, octets, now)", ENQUEUEING),
        ("    stream.append_rows(rows, now)", ENQUEUEING),
        ("from penstock.broker.publishing.routing import resolve", ROUTING),
        ("    if not interceptor.admits(message, queues, now):", ROUTING),
        ("    hold_back(vhost, exchange, message, now)", ROUTING),
    ],
)
def test_a_planted_shortcut_is_found(tmp_path: Path, line: str, pattern: re.Pattern[str]) -> None:
    planted = tmp_path / "dialects" / "planted.py"
    planted.parent.mkdir()
    planted.write_text(line)
    assert scan(tmp_path, pattern) == {"dialects/planted.py": 1}
