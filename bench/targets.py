"""What is measured in which case: a running broker, and the type of its queues."""

import dataclasses
from collections.abc import Mapping

from bench.cases import DURABLE_MODES, MODES, TLS, Case
from bench.extras import EXTRAS
from bench.plan import STREAM, LoadPlan, encrypted
from bench.results import REFERENCE, REFERENCE_QUORUM
from bench.running import HOST, RunningBroker
from bench.storage_cases import storing

# Here, too, messages must be durable.
KEEPING_CASES = (*DURABLE_MODES, STREAM)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """One row of a table. Held by the run for one case."""

    name: str
    broker: RunningBroker
    queue_type: str = ""

    def plan(self, case: Case, prefix: str) -> LoadPlan:
        plan = case.plan(HOST, self.broker.port, f"{prefix}.{self.name}", self.queue_type)
        if case.mode == TLS:
            return encrypted(plan, self.broker.tls_port, str(self.broker.authority))
        return plan


def durable_brokers(names: list[str]) -> list[str]:
    """The pure build's durability is not measured: it mostly waits for the disk."""
    return list(dict.fromkeys(storing(name) for name in names if name != "penstock-pure"))


def needed(cases: list[str], names: list[str]) -> list[str]:
    """Which brokers must run for these cases, in the order asked for."""
    wanted: list[str] = []
    if any(case in EXTRAS or (case in MODES and case not in DURABLE_MODES) for case in cases):
        wanted += names
    if any(case in KEEPING_CASES for case in cases):
        wanted += durable_brokers(names)
    return list(dict.fromkeys(wanted))


def targets(mode: str, names: list[str], brokers: Mapping[str, RunningBroker]) -> list[Target]:
    """A broker that did not start is missing from `brokers` and from the table."""
    if mode not in KEEPING_CASES:
        return [Target(name, brokers[name]) for name in names if name in brokers]
    found = []
    for name in durable_brokers(names):
        if name in brokers:
            found.append(Target(name, brokers[name]))
            if name == REFERENCE and mode in DURABLE_MODES:
                found.append(Target(REFERENCE_QUORUM, brokers[name], "quorum"))
    return found
