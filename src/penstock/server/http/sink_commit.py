"""One commit of a sink's batch: its request, the checks before it, and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.access.tags import ADMINISTRATOR_TAG
from penstock.broker.sinks.sinks import check_before_commit, check_owner, commit, is_committed
from penstock.broker.sinks.stages import PARTITIONS_MAX
from penstock.server.http.api.json_pieces import large_object_in
from penstock.server.http.problems import Problem
from penstock.server.http.request_parts import NUMBER_MAX
from penstock.server.http.staging import check_reach, check_room
from penstock.server.http.vhost_access import enter

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.broker.sink_table import Sink
    from penstock.broker.sinks.commit_check import CommitCheck
    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node
    from penstock.server.http.login import Caller

# How often a batch is counted again because something was declared meanwhile. Queues that the last
# count misses are waited for when it is published.
COUNTS_MAX: Final = 3
_FORM: Final = '{"attempts": [[PARTITION, ATTEMPT, COUNT], ...]}'
_WHEN_FULL: Final = ("fail", "wait")

Facts = dict[str, object]


class SinkCommit:
    """Held by its page. `count` and `decide` are called on the broker's loop."""

    def __init__(self, caller: Caller, vhost: str, sink: str, batch: int, body: bytes) -> None:
        self._caller = caller
        self._vhost = vhost
        self._sink = sink
        self._batch = batch
        # A sink has no more partitions, and sorting more would hold up the broker.
        read = large_object_in(body, _FORM, PARTITIONS_MAX)
        self._attempts = _attempts_in(read)
        # Whether rows that reach no queue refuse it.
        self._mandatory = bool(read.get("mandatory", False))
        # Whether full queues are waited for instead of refusing it.
        self._waits = _word_in(read, "when_full", _WHEN_FULL) == "wait"
        self._check: CommitCheck | None = None
        self._counts_left = COUNTS_MAX
        # The state of the sink after the decision.
        self._known: Sink | None = None
        self._repeated = False

    def is_empty(self) -> bool:
        return not any(count for _, _, count in self._attempts)

    def count(self, node: Node) -> Generator[None, None, None]:
        """Count what it would publish, in steps."""
        entered = enter_sink(node, self._caller, self._vhost, self._sink)
        check = check_before_commit(
            entered, self._sink, self._batch, self._attempts, self._mandatory
        )
        is_counting = check.is_needed()
        while is_counting:
            is_counting = check.step()
            yield
        self._check = check
        self._counts_left -= 1

    def decide(self, node: Node, now: int) -> Sink | None:
        """None when it must be counted again."""
        entered = enter_sink(node, self._caller, self._vhost, self._sink)
        self._repeated = is_committed(entered, self._sink, self._batch)
        check = self._check
        assert check is not None, "counted before it is decided"
        if not self._repeated:
            if check.is_stale() and self._counts_left:
                return None
            if self._mandatory:
                check_reach(check)
            check_room(check, self._waits)
        self._known = commit(entered, self._sink, self._batch, self._attempts, now)
        return self._known

    def answer(self, published: bool) -> Facts:
        known = self._known
        last = self._batch if known is None else known.batch
        facts: Facts = {
            "batch": self._batch,
            "published": published,
            "repeated": self._repeated,
            "last_batch": last,
            "unroutable": 0 if known is None or last != self._batch else known.unroutable,
        }
        if known is not None and not published and known.waits_for:
            facts["waits_for"] = known.waits_for
        return facts


def enter_sink(node: Node, caller: Caller, vhost: str, sink: str) -> VirtualHost:
    """Raises if the user may not change the sink."""
    entered, _ = enter(node, caller, vhost)
    if ADMINISTRATOR_TAG not in caller.tags:
        check_owner(entered, sink, caller.name)
    return entered


def _word_in(read: Facts, key: str, words: tuple[str, ...]) -> str:
    word = read.get(key, words[0])
    if word not in words:
        raise Problem(400, f"'{key}' has an invalid value", f"Valid values are {', '.join(words)}.")
    return str(word)


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= NUMBER_MAX


def _attempts_in(read: Facts) -> list[tuple[int, int, int]]:
    rows = read.get("attempts")
    attempts: list[tuple[int, int, int]] = []
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, list) or len(row) != 3 or not all(map(_is_number, row)):
            raise Problem(400, "the body does not list the attempts to commit", f"Send {_FORM}.")
        attempts.append((row[0], row[1], row[2]))
    if len({partition for partition, _, _ in attempts}) != len(attempts):
        raise Problem(400, "a partition is listed twice", "List one attempt for each partition.")
    # On the broker's loop they are sorted again, which costs little then.
    attempts.sort()
    return attempts
