"""One run: nodes, clients and a world with faults, from the first connection to the last check.

A run has four phases: faults (for the given time), recovery (no new faults; publishers finish and
queues drain, or the run fails), disconnection (all clients leave), and the final checks.
"""

from collections.abc import Callable
from typing import Final

from penstock.simulation import checkers
from penstock.simulation.caller import HEARTBEAT_SECONDS, Caller
from penstock.simulation.cast import Cast
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.durable_host import DurableHost
from penstock.simulation.faults import Faults
from penstock.simulation.history import History
from penstock.simulation.host import Host
from penstock.simulation.job import Job
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network
from penstock.simulation.plans import Scenario, StoragePlan
from penstock.simulation.recovery_ledger import RecoveryLedger
from penstock.wire.amqp091.limits import Limits

SECOND_US: Final = 1_000_000
# How often counters are compared during a run, and how often its end is checked.
LOOK_US: Final = 500_000
# The longest recovery is a cut line that nobody writes to: heartbeats end it within some seconds.
# The rest is for the backlog; a run that needs more has stopped working.
HEAL_SECONDS_MAX: Final = 60
# Cut lines are finally given up by the system, and the node must have been told.
FAREWELL_SECONDS_MAX: Final = 30

HostFactory = Callable[[str, VirtualClock, Dice, History, Limits, StoragePlan | None], Host]


class SimulatedRun:
    """Held by `run`, for one run."""

    def __init__(
        self,
        scenario: Scenario,
        dice: Dice,
        make_host: HostFactory | None = None,
        skipped: frozenset[int] = frozenset(),
    ) -> None:
        self._scenario = scenario
        if make_host is None:
            make_host = Host if scenario.storage is None else DurableHost
        self.clock = VirtualClock()
        self.history = History(self.clock)
        self._network = Network(self.clock, dice.fork("network"), self.history)
        self._hosts: list[Host] = []
        self._ledgers: list[Ledger] = []
        self._recoveries: list[tuple[DurableHost, RecoveryLedger]] = []
        self._casts: list[Cast] = []
        for number in range(scenario.host_count):
            self._build(f"node{number}", dice, make_host)
        self._faults = Faults(
            scenario,
            self.clock,
            dice.fork("faults"),
            self.history,
            self._network,
            self._hosts,
            skipped,
        )

    def _build(self, name: str, dice: Dice, make_host: HostFactory) -> None:
        scenario = self._scenario
        limits = Limits(frame_max=scenario.frame_max, heartbeat_seconds=HEARTBEAT_SECONDS)
        host = make_host(name, self.clock, dice.fork(name), self.history, limits, scenario.storage)
        ledger = Ledger(name, scenario.topology, self.history)
        for command in scenario.topology.commands():
            host.node.apply_to_vhost("/", command, self.clock.now())
        for queue_name, queue in checkers.watched_queues(ledger, host.node).items():
            queue.observers.append(ledger.watches[queue_name])
        if isinstance(host, DurableHost):
            self._recoveries.append((host, RecoveryLedger(ledger, host, dice.fork("looks"))))
            # An operator waits until the definitions are durable.
            self.clock.run(SECOND_US)
            assert host.node.is_all_durable(), "a second is enough for the first flush"
        self._network.listen(name, host)
        self._hosts.append(host)
        self._ledgers.append(ledger)
        cast = Cast(scenario, self.clock, dice, self._network, ledger, host)
        if scenario.readers_per_stream:
            # Their cursors too.
            self.clock.run(SECOND_US)
        self._casts.append(cast)
        cast.connect()

    @property
    def fault_count(self) -> int:
        return self._faults.count

    def _programs(self) -> list[Caller]:
        return [program for cast in self._casts for program in cast.programs]

    def _jobs(self) -> list[Job]:
        return [job for cast in self._casts for job in cast.jobs]

    def _players(self) -> list[Caller | Job]:
        return [*self._programs(), *self._jobs()]

    def violations(self) -> list[str]:
        return [violation for ledger in self._ledgers for violation in ledger.violations]

    def play(self, seconds: int) -> None:
        """Run all four phases; stops early when something is already wrong."""
        self._run(seconds, self._has_failed)
        self._faults.heal()
        for player in self._players():
            player.is_calm = True
        if not self._run(HEAL_SECONDS_MAX, self._is_settled):
            self._complain_of_standstill()
        if self.violations():
            return
        for job in self._jobs():
            job.is_leaving = True
        for program in self._programs():
            program.leave()
        self._run(FAREWELL_SECONDS_MAX, self._is_deserted)
        self._restart()
        self._reckon()

    def _restart(self) -> None:
        """Restart once more, without clients: messages in queues without consumers must be
        recovered.
        """
        for host, recovery in self._recoveries:
            recovery.compare(host)
            recovery.check_size(host)
            host.lose_power()
        self._run(FAREWELL_SECONDS_MAX, self._is_deserted)
        for host, recovery in self._recoveries:
            recovery.compare(host)

    def _run(self, seconds: int, is_done: Callable[[], bool]) -> bool:
        """Let time pass until a condition is true or the time is over; returns whether it was
        true.
        """
        for _ in range(seconds * SECOND_US // LOOK_US):
            self.clock.run(LOOK_US)
            for ledger, host in zip(self._ledgers, self._hosts, strict=True):
                if not host.is_up:
                    continue
                for complaint in checkers.counters_that_differ(ledger, host.node):
                    ledger.violated(complaint)
            if is_done() or self.violations():
                return True
        return False

    def _has_failed(self) -> bool:
        return bool(self.violations())

    def _is_settled(self) -> bool:
        is_done = all(program.is_done for program in self._programs())
        return is_done and not any(
            not host.is_up or self._unfinished(ledger, host)
            for ledger, host in zip(self._ledgers, self._hosts, strict=True)
        )

    def _unfinished(self, ledger: Ledger, host: Host) -> list[str]:
        complaints = checkers.not_drained(ledger, host.node)
        for keeper in ledger.promise_keepers:
            complaints += keeper.unfinished(host.node)
        return complaints

    def _is_deserted(self) -> bool:
        return all(program.is_gone for program in self._programs()) and not any(
            not host.is_idle() for host in self._hosts
        )

    def _complain_of_standstill(self) -> None:
        for program in self._programs():
            if not program.is_done:
                program.ledger.violated(f"{program.name} never received all its confirms")
        for ledger, host in zip(self._ledgers, self._hosts, strict=True):
            for complaint in self._unfinished(ledger, host):
                ledger.violated(complaint)

    def _reckon(self) -> None:
        for ledger, host in zip(self._ledgers, self._hosts, strict=True):
            complaints = [
                *checkers.confirmed_and_missing(ledger, host.node),
                *checkers.refused_and_kept(ledger),
                *checkers.torn_transactions(ledger),
                *checkers.dead_and_not_buried(ledger),
                *checkers.dropped_without_reason(ledger),
                *checkers.left_behind(ledger, host.node),
            ]
            for keeper in ledger.promise_keepers:
                complaints += keeper.broken(host.node)
            for program in self._programs():
                if program.ledger is ledger and not program.is_gone:
                    complaints.append(f"{program.name} could not disconnect")
            for complaint in complaints:
                ledger.violated(complaint)
