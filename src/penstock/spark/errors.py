"""What goes wrong between Spark and the broker, in words for whoever runs the query."""

from __future__ import annotations

from typing import Any


class PipelineError(Exception):
    """All of ours. They cross from Spark's Python processes to the driver as text."""


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
    """The broker answered, and the answer is no. `facts` are what stood in it."""

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
    """Messages that the query should have read are not there any more."""


class StreamReplaced(DataLost):
    """The stream was deleted and another one of its name was declared."""


class SegmentDamaged(PipelineError):
    """What came from the broker is not what its index says."""
