"""Making a node a member of a cluster: everything that is joined, in the order in which it is needed."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from mypy_extensions import mypyc_attr

from penstock.broker.arguments import CLASSIC, QUORUM, STREAM
from penstock.broker.events import Event, EventKind, Party, Severity
from penstock.broker.ledger.ledger import Ledger
from penstock.broker.queues.guarded_queue import GuardedQueueMaker
from penstock.broker.queues.guarded_queues import GuardedQueues
from penstock.broker.replication_level import ReplicationLevel, ReplicationTest
from penstock.broker.state import BrokerState
from penstock.broker.streams.opening import StreamMaker
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.cluster.election import Election
from penstock.cluster.links import LinkSurroundings, PeerLinks
from penstock.cluster.peer_identity import PeerIdentity
from penstock.cluster.promises import Promises, open_promises
from penstock.dialects.container import Container
from penstock.formats.peer_limits import OPERATION_BYTES_MAX
from penstock.ha.connection_observer import ConnectionObserver
from penstock.ha.ha_broker import HaBroker
from penstock.ha.stored_replica import StoredReplica
from penstock.node.cluster_member import ClusterMember, RootDuties
from penstock.node.cluster_settings import ClusterSettings
from penstock.node.in_sync_history import InSyncChange
from penstock.node.member_adapters import (
    MemberElectionListener,
    MemberInSyncSet,
    MemberLines,
    MemberLinksListener,
    MemberPrimaryListener,
    MemberProgress,
    MemberRootView,
    MemberStores,
)
from penstock.node.node_owner import NodeOwner
from penstock.node.stored import StoredState
from penstock.world.clock import Clock
from penstock.world.disk import Disk
from penstock.world.entropy import Entropy
from penstock.world.network import Dialler


@mypyc_attr(allow_interpreted_subclasses=True)
class ActiveRootListener(ABC):
    """Hears when a server has become the active root."""

    @abstractmethod
    def became_active(self, now: int) -> None:
        """Called before any client is served."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Given to the node of a member by the world that drives it."""

    settings: ClusterSettings
    dialler: Dialler
    # Read directly before anything is written to clients, and for nothing else (R14).
    clock: Clock
    listener: ActiveRootListener | None = None


@dataclass(frozen=True, slots=True)
class PreparedState:
    """What a member of a cluster has beside the state that it was made for."""

    guarded: GuardedQueues
    streams: ReplicatedStreams


def prepare_state(state: BrokerState, default: ReplicationLevel) -> PreparedState:
    """Queues are guarded and streams replicated, before the first one is made."""
    guarded = GuardedQueues()
    maker = GuardedQueueMaker(guarded.arrivals)
    streams = ReplicatedStreams(state.streams)
    state.shared.kinds.add(CLASSIC, maker)
    state.shared.kinds.add(QUORUM, maker)
    state.shared.kinds.add(STREAM, StreamMaker(state.streams, state.wall, streams))
    state.shared.replication = ReplicationTest(default, True)
    return PreparedState(guarded, streams)


def join_cluster(
    plan: ClusterPlan,
    prepared: PreparedState,
    owner: NodeOwner,
    container: Container,
    stored: StoredState,
    disk: Disk,
    now: int,
) -> ClusterMember:
    """Everything is recovered: take part in elections from now on. Raises `PromisesDamaged`."""
    settings = plan.settings
    entropy: Entropy = container.entropy
    promises = open_promises(disk)
    assert stored.replica is not None, "the store of a member"
    replica = StoredReplica(stored.replica, now)
    member = ClusterMember(settings, owner, prepared.guarded, prepared.streams, plan.clock)
    ha = HaBroker(
        settings.name, replica, MemberStores(member), entropy, settings.ha_rules, settings.limits
    )
    lines = MemberLines()
    election = Election(
        settings.name,
        promises,
        lines,
        MemberElectionListener(member),
        MemberProgress(member),
        settings.timing,
        entropy,
        now,
        settings.election_rules,
    )
    surroundings = LinkSurroundings(
        plan.dialler, entropy, container.flush_list, container.events, container.state.wall
    )
    identity = _identity(settings, promises)
    member.identity = identity
    container.store_name = identity.cluster_id
    links = PeerLinks(
        identity, settings.key, surroundings, MemberLinksListener(member), settings.links
    )
    lines.links = links
    container.peers = links.door
    observer = ConnectionObserver(container.state.timers, MemberRootView(member))
    container.admission = observer
    container.transaction_bytes_max = OPERATION_BYTES_MAX // 2
    duties = StoredDuties(member, ha, observer, container, stored, plan.listener)
    member.attach(ha, election, links, duties, container.state.timers, now)
    return member


def begin_ledger(state: BrokerState, disk: Disk, wall: int, member: ClusterMember | None) -> Ledger:
    """Called in the node's constructor, where the compiler takes the node's own `member` for None; so
    the member is the one that its answers have.
    """
    ledger = Ledger(state, disk, wall)
    if member is not None:
        ledger.is_member(member.cluster_id, member.name, member.member_names)
    return ledger


def _identity(settings: ClusterSettings, promises: Promises) -> PeerIdentity:
    own = promises.record.find(settings.name)
    address = "" if own is None else own.address
    return PeerIdentity(
        settings.name,
        address,
        promises.store_id,
        promises.record.cluster_id.hex(),
        settings.digest,
    )


class StoredDuties(RootDuties):
    """The store and the clients of a member. Held by it."""

    def __init__(
        self,
        member: ClusterMember,
        ha: HaBroker,
        observer: ConnectionObserver,
        container: Container,
        stored: StoredState,
        listener: ActiveRootListener | None,
    ) -> None:
        self._listener: ActiveRootListener | None = listener
        self._member: ClusterMember = member
        self._ha: HaBroker = ha
        self._observer: ConnectionObserver = observer
        self._container: Container = container
        self._stored: StoredState = stored

    def begin(self, epoch: int, now: int) -> None:
        member = self._member
        watcher = self._container.state.shared.watcher
        if watcher is not None:
            watcher.is_member(member.cluster_id, member.name, member.member_names)
        self._stored.store.operations = self._ha.promote(
            epoch, MemberInSyncSet(member), MemberPrimaryListener(member), now
        )
        # The log of definitions is a new one and counts from zero: its first changes are seen as such.
        self._container.durability.definition_count = -1

    def end(self, now: int) -> None:
        self._stored.store.operations = None
        assert self._stored.replica is not None, "the store of a member"
        self._stored.replica.demote(now)

    def serving_changed(self, now: int) -> None:
        if self._listener is not None and self._member.may_serve(now):
            self._listener.became_active(now)
        self._observer.changed(now)

    def role_changed(self, role: str, reason: str, now: int) -> None:
        facts: dict[str, object] = {
            "server": self._member.name,
            "role": role,
            "epoch": self._member.epoch,
        }
        event = Event(EventKind.CLUSTER_ROLE_CHANGED, Severity.INFO, Party(), reason, facts)
        self._container.events.record(event)

    def in_sync_changed(self, change: InSyncChange) -> None:
        facts: dict[str, object] = {
            "in_sync": ", ".join(change.in_sync),
            "entered": ", ".join(change.entered),
            "left": ", ".join(change.left),
            "record": f"{change.epoch}.{change.version}",
        }
        severity = Severity.WARNING if change.left else Severity.INFO
        event = Event(EventKind.CLUSTER_IN_SYNC_CHANGED, severity, Party(), change.reason, facts)
        self._container.events.record(event)

    def disk_is_slow(self, now: int) -> bool:
        began = self._stored.journal.flush_began_at
        return began > 0 and now - began > self._member.settings.timing.disk_ms
