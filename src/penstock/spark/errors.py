"""Errors between Spark and the broker, worded for the user who runs the query."""

from __future__ import annotations

from typing import Any


class PipelineError(Exception):
    """The parent of all errors here. They pass from Spark's Python processes to the driver as
    text.
    """


class OptionError(PipelineError, ValueError):
    """An option is unknown, wrong, or contradicts another one. Names it and says what to do."""

    def __init__(self, option: str, problem: str, remedy: str) -> None:
        super().__init__(option, problem, remedy)
        self.option = option

    def __str__(self) -> str:
        option, problem, remedy = self.args
        return f"option '{option}': {problem}. {remedy}"


class BrokerUnreachable(PipelineError):
    """No address answered for as long as the option `retryTimeout` allows."""


class BrokerRefused(PipelineError):
    """The broker refused a request. `facts` are the content of its answer."""

    def __init__(self, status: int, what: str, facts: dict[str, Any]) -> None:
        super().__init__(status, what, facts)
        self.status = status
        self.facts = facts

    def __str__(self) -> str:
        status, what, facts = self.args
        reason = facts.get("reason", "no reason given")
        remedy = facts.get("what_to_do", "")
        return f"the broker answered {status} to {what}: {reason}. {remedy}".strip()


class DataLost(PipelineError):
    """Messages that the query should have read no longer exist."""


class StreamReplaced(DataLost):
    """The stream was deleted and another one of its name was declared."""


class SegmentDamaged(PipelineError):
    """Data from the broker does not match its index."""
