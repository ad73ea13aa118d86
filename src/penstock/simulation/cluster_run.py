"""One run of a cluster: trouble, healing with a minority dead, and the checks.

The phases: a root is elected and everything is declared; faults for the given time; healing, after
which a minority of the servers is dead and stays so, a root must serve soon, publishers finish and
queues drain, the in-sync set is refilled with the living, and their replicas are equal; all clients
leave; all living servers lose power at once and come back with the same messages.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.cluster.links import LinkSettings
from penstock.cluster.member import Member
from penstock.cluster.record import ClusterRecord, bootstrap_record, cluster_id_of_key
from penstock.cluster.rules import ALL_RULES, ElectionRules
from penstock.cluster.timing import Timing, scaled
from penstock.ha.limits import HaLimits
from penstock.ha.rules import ALL_RULES as ALL_HA_RULES
from penstock.ha.rules import HaRules
from penstock.node.cluster_settings import ClusterSettings
from penstock.simulation import checkers
from penstock.simulation.caller import HEARTBEAT_SECONDS, Caller
from penstock.simulation.clock import VirtualClock
from penstock.simulation.cluster_cast import ClusterCast
from penstock.simulation.cluster_checks import ClusterChecks, stored_of
from penstock.simulation.cluster_faults import ClusterFaults, address_of
from penstock.simulation.cluster_host import ClusterHost, ClusterWorld
from penstock.simulation.cluster_ledger import ClusterLedger, MemberWatcher, held_by
from penstock.simulation.dice import Dice
from penstock.simulation.history import History
from penstock.simulation.job import Job
from penstock.simulation.network import Network
from penstock.simulation.plans import Scenario
from penstock.wire.amqp091.limits import Limits

SECOND_US: Final = 1_000_000
LOOK_US: Final = 250_000
# All times of the protocol are shorter than in production (protocol section 13).
TIMING: Final = scaled(Timing(), 2, 5)
KEY: Final = b"the key of this cluster"
# From the end of all faults to a root that serves. Most of it is for machines that are down, for
# lines whose other end is gone, and for a flush that hangs.
SERVES_SECONDS_MAX: Final = 20
HEAL_SECONDS_MAX: Final = 60
FAREWELL_SECONDS_MAX: Final = 30
# Small, so that a few messages take several pieces, and few operations are kept for a RESUME.
PIECE_BYTES: Final = 600
UNACKNOWLEDGED_BYTES: Final = 1_200
KEPT_BYTES: Final = 60_000
RANGES_PER_MESSAGE: Final = 3
VALUES_PER_MESSAGE: Final = 700

MemberFactory = Callable[[str, ClusterWorld, Dice], ClusterHost]


def small_limits() -> HaLimits:
    limits = HaLimits()
    limits.piece_bytes = PIECE_BYTES
    limits.unacknowledged_bytes = UNACKNOWLEDGED_BYTES
    limits.kept_bytes = KEPT_BYTES
    limits.ranges_per_message = RANGES_PER_MESSAGE
    limits.values_per_message = VALUES_PER_MESSAGE
    return limits


class ClusterRun:
    """Held by `run`, for one run."""

    def __init__(
        self,
        scenario: Scenario,
        dice: Dice,
        skipped: frozenset[int] = frozenset(),
        election_rules: ElectionRules = ALL_RULES,
        ha_rules: HaRules = ALL_HA_RULES,
        make_host: MemberFactory | None = None,
    ) -> None:
        assert scenario.storage is not None, "members have disks"
        self._scenario = scenario
        self._dice = dice
        self._skipped = skipped
        self._rules = (election_rules, ha_rules)
        self.hosts: list[ClusterHost] = []
        self.clock = VirtualClock()
        self.history = History(self.clock)
        self._network = Network(self.clock, dice.fork("network"), self.history)
        self.ledger = ClusterLedger("cluster", scenario.topology, self.history)
        self.ledger.begin()
        count = scenario.host_count + scenario.spare_count
        names = [chr(ord("a") + number) for number in range(count)]
        self._first_names = names[: scenario.host_count]
        self._limits = small_limits()
        world = ClusterWorld(
            self.clock,
            self.history,
            self._network,
            self._first_record,
            self._settings,
            Limits(frame_max=scenario.frame_max, heartbeat_seconds=HEARTBEAT_SECONDS),
            scenario.storage,
        )
        for name in names:
            host = (make_host or ClusterHost)(name, world, dice.fork(name))
            host.watcher = host.election_watcher = MemberWatcher(self.ledger, self.hosts)
            self.hosts.append(host)
            self._network.listen(name, host)
        self._checks = ClusterChecks(self.ledger, self.hosts)
        self._programs: list[Caller] = []
        self._jobs: list[Job] = []
        self._faults: ClusterFaults | None = None

    def _first_record(self, name: str) -> ClusterRecord:
        """A server is formatted with the present members, and with itself as a further one."""
        up = [host for host in self.hosts if host.is_up]
        names = max([host.record for host in up], key=ClusterRecord.order).names() if up else []
        names = list(dict.fromkeys([*(names or self._first_names), name]))
        members = [Member(name, address_of(name)) for name in names]
        return bootstrap_record(cluster_id_of_key(KEY), members)

    @property
    def fault_count(self) -> int:
        return 0 if self._faults is None else self._faults.count

    def _settings(self, name: str) -> ClusterSettings:
        return ClusterSettings(
            name,
            KEY,
            timing=TIMING,
            links=LinkSettings(heartbeat_seconds=1, dial_again_ms_max=500),
            limits=self._limits,
            election_rules=self._rules[0],
            ha_rules=self._rules[1],
        )

    def violations(self) -> list[str]:
        return self.ledger.violations

    # Phases.

    def play(self, seconds: int) -> None:
        if not self._begin():
            return
        faults = ClusterFaults(
            self._scenario,
            self.clock,
            self._dice.fork("faults"),
            self.history,
            self._network,
            self.hosts,
            [program.name for program in self._programs],
            self._skipped,
        )
        self._faults = faults
        self._run(seconds, lambda: False)
        if self.violations():
            return
        faults.end()
        if faults.disabled and not self._run(HEAL_SECONDS_MAX, lambda: not faults.disabled):
            self.ledger.violated("the root role that was disabled cannot be enabled")
        if self._scenario.spare_count and not self._run(HEAL_SECONDS_MAX, self._has_settled):
            self.ledger.violated("a change of the members did not come to an end")
        self._lose_minority(faults)
        self._recover()
        if self.violations():
            return
        self._leave()
        self._check_replicas()
        self._lose_everything()

    def _begin(self) -> bool:
        """A root is elected, everything is declared, and the clients come."""
        if not self._run(SERVES_SECONDS_MAX, lambda: self.root() is not None):
            self.ledger.violated("no root was elected at the start")
            return False
        if self.violations():
            return False
        root = self.root()
        assert root is not None, "just seen"
        for command in self._scenario.topology.commands():
            root.node.apply_to_vhost("/", command, root.now())
        root.schedule_flush()
        if not self._run(SERVES_SECONDS_MAX, self._is_all_committed):
            self.ledger.violated("the definitions were not committed at the start")
            return False
        cast = ClusterCast(
            self._scenario, self.clock, self._dice, self._network, self.ledger, self.hosts
        )
        self._programs = cast.programs
        self._jobs = cast.jobs
        if not cast.is_ready and not self._run(SERVES_SECONDS_MAX, lambda: cast.is_ready):
            self.ledger.violated("the cursors were not committed at the start")
        return not self.violations()

    def _lose_minority(self, faults: ClusterFaults) -> None:
        """So many servers stay down that the rest is a majority; a server without its disk is one
        of them, because nobody counts it.
        """
        dice = self._dice.fork("minority")
        members = self.members()
        dying = [host for host in faults.lost if host in members]
        left = dice.between(len(dying), max(len(dying), (len(members) - 1) // 2))
        while len(dying) < left:
            host = dice.choose(members)
            if host not in dying:
                dying.append(host)
        for host in dying:
            host.die()

    def _recover(self) -> None:
        players: list[Caller | Job] = [*self._programs, *self._jobs]
        for player in players:
            player.is_calm = True
        if not self._run(SERVES_SECONDS_MAX, lambda: self.root() is not None):
            self.ledger.violated(f"no root serves {SERVES_SECONDS_MAX} s after the last fault (P6)")
            self._describe()
            return
        if not self._run(HEAL_SECONDS_MAX, lambda: not self._unfinished()):
            for complaint in self._unfinished():
                self.ledger.violated(complaint)
            self._describe()

    def _leave(self) -> None:
        for job in self._jobs:
            job.is_leaving = True
        for program in self._programs:
            program.leave()
        self._run(FAREWELL_SECONDS_MAX, self._is_deserted)
        for program in self._programs:
            if not program.is_gone:
                self.ledger.violated(f"{program.name} could not disconnect")

    def _check_replicas(self) -> None:
        if self._run(FAREWELL_SECONDS_MAX, partial(self._checks.are_equal, self.living())):
            self.history.sighted("replicas are equal in the end")
            return
        for complaint in self._checks.differences(self.living()):
            self.ledger.violated(complaint)
        self._describe()

    def _lose_everything(self) -> None:
        root = self.root()
        if self.violations() or root is None:
            return
        before = held_by(root.node)
        self.ledger.sight_doubts(before)
        for host in self.living():
            host.lose_power()
        if not self._run(SERVES_SECONDS_MAX, lambda: self.root() is not None):
            self.ledger.violated("no root serves after all servers have lost power (P6)")
            self._describe()
            return
        if self.violations():
            return
        root = self.root()
        assert root is not None, "just seen"
        if held_by(root.node) != before:
            self.ledger.violated(f"{root.name} does not have what was there before the power loss")

    # Conditions.

    def members(self) -> list[ClusterHost]:
        """By the newest record that a server has. Which are members may change only while there is
        trouble.
        """
        up = [host for host in self.hosts if host.is_up]
        if not self._scenario.spare_count or not up:
            return self.hosts
        names = max([host.record for host in up], key=ClusterRecord.order).names()
        return [host for host in self.hosts if host.name in names]

    def living(self) -> list[ClusterHost]:
        """Members that are not dead for good."""
        return [host for host in self.members() if not host.is_dead]

    def _has_settled(self) -> bool:
        """Nothing of what an operator asked for is pending."""
        root = self.root()
        role = None if root is None else root.election.root
        return role is not None and role.is_settled() and role.learner is None

    def root(self) -> ClusterHost | None:
        for host in self.hosts:
            if host.may_serve():
                return host
        return None

    def _is_all_committed(self) -> bool:
        root = self.root()
        return root is not None and root.node.is_all_durable() and not root.node.has_work()

    def _unfinished(self) -> list[str]:
        complaints = [
            f"{program.name} never received all its confirms"
            for program in self._programs
            if not program.is_done
        ]
        root = self.root()
        if root is None:
            return [*complaints, "no root serves"]
        complaints += checkers.not_drained(self.ledger, root.node)
        for keeper in self.ledger.promise_keepers:
            complaints += keeper.unfinished(root.node)
        living = [host.name for host in self.living()]
        record = root.record
        missing = [name for name in living if name not in record.in_sync]
        if missing:
            complaints.append(f"{' '.join(missing)} are not in the in-sync set")
        return complaints

    def _is_deserted(self) -> bool:
        if not all(program.is_gone for program in self._programs):
            return False
        root = self.root()
        return root is not None and root.node.is_all_durable()

    def _run(self, seconds: int, is_done: Callable[[], bool]) -> bool:
        """Let time pass until a condition is true or the time is over; returns whether it was."""
        for _ in range(seconds * SECOND_US // LOOK_US):
            self.clock.run(LOOK_US)
            self._checks.look()
            if is_done() or self.violations():
                return True
        return False

    def _describe(self) -> None:
        """Into the history, for whoever must understand a standstill."""
        for host in self.hosts:
            if not host.is_up:
                self.history.add(f"{host.name} is down")
                continue
            status = host.member.status(host.now())
            self.history.add(
                f"{host.name}: {status.role} of epoch {status.epoch}, root {status.root!r}, syn "
                f"{stored_of(host).store.syn}, committed {status.committed}, record "
                f"{host.record}, members {status.members}"
            )
