"""Random enqueues, deliveries, acknowledgements and dequeues: the table of states, the guards that are derived
from positions, and what the backups really hold agree at every step.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.topology import PurgeQueue
from penstock.formats.replication_id import first_id
from penstock.ha import messages
from penstock.ha.message_states import STATES, ReplicationEvent, ReplicationState
from penstock.ha.queue_guard import NOT_GUARDED, QueueGuard, waiting_ticks
from penstock.ha.remote_backup import BackupState, RemoteBackup
from tests.ha.replica_doubles import Member, held_of
from tests.ha.stored_members import CommittedPositions, Follower, Root

QUEUES = ("p", "q")
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.sampled_from(QUEUES), st.integers(1, 3)),
        st.tuples(st.just("dequeue"), st.sampled_from(QUEUES), st.integers(1, 2)),
        st.tuples(st.just("purge"), st.sampled_from(QUEUES), st.just(0)),
        st.tuples(st.just("tick"), st.just(""), st.just(0)),
        st.tuples(st.just("deliver"), st.just(""), st.just(0)),
        st.tuples(st.just("acknowledge"), st.sampled_from("bc"), st.integers(1, 3)),
        st.tuples(st.just("await"), st.just("c"), st.just(0)),
    ),
    max_size=40,
)
IN_ORDER = (ReplicationEvent.ENQUEUE, ReplicationEvent.DELIVER, ReplicationEvent.ACKNOWLEDGED)


class Told(CommittedPositions):
    """Makes ready what is committed, as a node does."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self._member = member

    def committed(self, position: int, k: int, now: int) -> None:
        super().committed(position, k, now)
        self._member.guarded.committed(position, now)


class Watched:
    """One backup, and what was seen of every message by listening to its line."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.sent_k = 0
        self.acked_k = -1
        # Ids from which on its guard delays; none before it has one.
        self.first_guarded: dict[int, int] | None = None

    def state_of(self, number: int, position: int, k: int) -> ReplicationState:
        """By the table."""
        guarded = self.first_guarded is not None and self.first_guarded.get(number, 0) <= position
        seen = {
            ReplicationEvent.ENQUEUE: guarded,
            ReplicationEvent.DELIVER: k <= self.sent_k,
            ReplicationEvent.ACKNOWLEDGED: k <= self.acked_k,
        }
        state = ReplicationState.NEW
        for event in IN_ORDER:
            if seen[event]:
                state = STATES[state, event]
        return state


class Stage:
    """A root with a backup that is waited for and one that is not yet."""

    def __init__(self) -> None:
        self.member = Member()
        self.member.commits = False
        self.root = Root(self.member, 1, ["b"], Told(self.member))
        self.watched = {name: Watched(Follower(name, Member(), self.root)) for name in ("b", "c")}
        # By queue number and position: the operation that brought it.
        self.born: dict[tuple[int, int], int] = {}
        for watched in self.watched.values():
            watched.follower.catch_up()
        # Ready with no queue, and without a message.
        assert self.backup("b").state is BackupState.READY
        assert self.backup("c").state is BackupState.CATCHUP
        for name in QUEUES:
            self.member.declare(name)
        self.tick()
        for watched in self.watched.values():
            watched.follower.catch_up()
            watched.sent_k = watched.acked_k = self.root.primary.last_k
        self.watched["b"].first_guarded = {}

    def backup(self, name: str) -> RemoteBackup:
        (found,) = [one for one in self.root.primary.backups() if one.name == name]
        return found

    def do(self, verb: str, name: str, count: int) -> None:
        if verb == "enqueue":
            self.member.put(name, *[b"body"] * count)
        elif verb == "dequeue":
            ready = self.member.vhost.queue(name).journal_list().count
            for _ in range(min(count, ready)):
                self.member.acknowledge(self.member.get(name))
        elif verb == "purge":
            self.member.apply(PurgeQueue(name))
        elif verb == "tick":
            self.tick()
        elif verb == "deliver":
            self.deliver()
        elif verb == "acknowledge":
            self.acknowledge(self.watched[name], count)
        else:
            self.wait_for_c()

    def tick(self) -> None:
        self.member.tick()
        self.member.flushed()
        k = self.root.primary.last_k
        for number, position in self.held():
            self.born.setdefault((number, position), k)
        self.root.primary.local_durable(self.member.journal.durable_position, self.member.now)

    def deliver(self) -> None:
        # What the present tick has brought is written first: SYNC and pump are at the end of one.
        self.tick()
        self.root.primary.pump(self.member.now)
        for watched in self.watched.values():
            for kind, octets in watched.follower.down.sent:
                if kind == messages.OP:
                    watched.sent_k = max(watched.sent_k, messages.decode_operation_head(octets).k)

    def acknowledge(self, watched: Watched, count: int) -> None:
        """Some operations arrive there, are flushed, and their acknowledgement arrives here."""
        follower = watched.follower
        for kind, octets in follower.down.sent[:count]:
            follower.backup.received(kind, octets, follower.member.now)
        del follower.down.sent[:count]
        follower.flushed()
        for kind, octets in follower.up.sent:
            assert kind == messages.ACK
            watched.acked_k = messages.decode_ack(octets).k
            self.root.primary.acked(follower.name, octets, self.member.now)
        follower.up.sent.clear()

    def wait_for_c(self) -> None:
        watched = self.watched["c"]
        if watched.first_guarded is None:
            watched.first_guarded = {}
            for name in QUEUES:
                queue = self.member.vhost.queue(name)
                waiting = queue.waiting_entries()
                first = waiting[0].position if waiting else queue.end_position()
                watched.first_guarded[queue.number] = first
            self.root.awaited.names.append("c")
            self.root.primary.in_sync_set_changed(self.member.now)

    def held(self) -> list[tuple[int, int]]:
        """What the queues of the root hold, committed or not."""
        found: list[tuple[int, int]] = []
        for name in QUEUES:
            queue = self.member.vhost.queue(name)
            ids = [
                *queue.journal_list().journalled()[0],
                *[e.position for e in queue.waiting_entries()],
            ]
            found.extend((queue.number, position) for position in ids)
        return found

    def guard(self, watched: Watched, number: int) -> QueueGuard:
        (queue,) = [one for one in self.member.state.queues() if one.number == number]
        backup = self.backup(watched.follower.name)
        return self.root.primary.guard_of(backup, number, waiting_ticks(queue))

    def check(self) -> None:
        committed = self.root.primary.committed_k
        for watched in self.watched.values():
            there = held_of(watched.follower.member)
            states: set[ReplicationState] = set()
            for number, position in self.held():
                k = self.born.get((number, position), self.root.primary.last_k + 1)
                told = watched.state_of(number, position, k)
                states.add(told)
                if k > committed:
                    assert self.guard(watched, number).state_of(position) is told
                if told is ReplicationState.SAFE:
                    assert (number, position) in there
                if told in {ReplicationState.NEW, ReplicationState.DELAYED}:
                    assert (number, position) not in there
            if self.backup(watched.follower.name).state is BackupState.READY:
                assert states <= {
                    ReplicationState.SAFE,
                    ReplicationState.DELAYED,
                    ReplicationState.DELAYED_SENT,
                }

    def settle(self) -> None:
        """Everything is sent and acknowledged."""
        for watched in self.watched.values():
            self.deliver()
            self.acknowledge(watched, len(watched.follower.down.sent))


@settings(max_examples=60, deadline=None)
@given(ACTIONS)
def test_the_table_the_guards_and_the_backups_agree(actions: list[tuple[str, str, int]]) -> None:
    stage = Stage()
    for verb, name, count in actions:
        stage.do(verb, name, count)
        stage.check()
    stage.settle()
    stage.check()
    assert stage.backup("b").state is BackupState.READY
    for watched in stage.watched.values():
        assert held_of(watched.follower.member) == set(stage.held())
        # What was acknowledged is on its disk, too.
        assert held_of(watched.follower.member.restarted()) == set(stage.held())


def test_a_guard_counts_what_is_delayed_and_says_where_it_begins() -> None:
    stage = Stage()
    stage.do("enqueue", "q", 3)
    stage.do("tick", "", 0)
    number = stage.member.vhost.queue("q").number
    for name, delayed in (("b", 3), ("c", 0)):
        guard = stage.guard(stage.watched[name], number)
        assert guard.delayed_count() == delayed
        assert guard.count(ReplicationState.NEW) == 3 - delayed
    stage.do("deliver", "", 0)
    guard = stage.guard(stage.watched["b"], number)
    assert guard.count(ReplicationState.DELAYED_SENT) == 3
    assert guard.first_guarded == first_id(1)
    assert stage.guard(stage.watched["c"], number).first_guarded == NOT_GUARDED
    stage.do("acknowledge", "b", 1)
    assert stage.guard(stage.watched["b"], number).delayed_count() == 0
    stage.do("await", "c", 0)
    # Three are committed, so its guard begins behind them.
    assert stage.guard(stage.watched["c"], number).first_guarded == first_id(1) + 3
    assert stage.backup("c").state is BackupState.CATCHUP
    stage.do("acknowledge", "c", 1)
    assert stage.backup("c").state is BackupState.READY
    stage.root.awaited.names.remove("c")
    stage.root.primary.in_sync_set_changed(stage.member.now)
    assert stage.backup("c").state is BackupState.CATCHUP


def test_every_state_but_the_first_is_reached_and_the_last_is_final() -> None:
    assert set(STATES.values()) == set(ReplicationState) - {ReplicationState.NEW}
    assert all(source is not ReplicationState.SAFE for source, _ in STATES)
