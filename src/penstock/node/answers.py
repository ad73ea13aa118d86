"""What a tick sends: confirms and other answers, and the output of every connection.

Answers that depend on the journal wait until it is durable as far as they need, in a cluster until it
is committed.

Invariant: an error while one connection is answered or written to is that connection's alone.
"""

from penstock.cluster.standing import NO_LIMIT
from penstock.dialects.container import Container, Durability, EndOfTickAnswer
from penstock.node.cluster_member import ClusterMember
from penstock.node.node_owner import NodeOwner
from penstock.wire.outgoing import Outgoing


class Answers:
    """Held by the node."""

    def __init__(self, container: Container, node: NodeOwner) -> None:
        self._container: Container = container
        self._durability: Durability = container.durability
        self._node: NodeOwner = node
        # Set by the node of a member of a cluster.
        self.member: ClusterMember | None = None
        # Connections whose output waits for the journal.
        self._held_output: list[Outgoing] = []
        # Publishers whose answers wait for it; a dictionary for its order.
        self._waiting: dict[EndOfTickAnswer, None] = {}

    def confirm(self, now: int) -> None:
        answer_list = self._container.answer_list
        if not answer_list:
            return
        answering = answer_list[:]
        # Cleared first: a queue with more to dispatch lists itself for the next tick.
        answer_list.clear()
        for confirms in answering:
            try:
                confirms.flush()
                if confirms.is_waiting():
                    self._waiting[confirms] = None
            except Exception as error:
                self._node.answer_failed(
                    confirms.outgoing_of(), "confirming its messages", error, now
                )

    def write(self, now: int) -> None:
        flush_list = self._container.flush_list
        if not flush_list:
            return
        pending = flush_list[:]
        flush_list.clear()
        durable = self._durability.durable
        member = self.member
        until = NO_LIMIT if member is None else member.sends_until()
        for index, outgoing in enumerate(pending):
            if member is not None and member.is_later_than(until):
                # The next tick steps down, before it writes what is left.
                flush_list.extend(pending[index:])
                return
            if outgoing.durable_at > durable:
                outgoing.is_waiting = True
                self._held_output.append(outgoing)
                continue
            try:
                outgoing.flush()
            except Exception as error:
                self._node.answer_failed(outgoing, "writing its output", error, now)

    def became_durable(self, position: int) -> None:
        """What waits for the journal up to here may leave with the next tick."""
        self._durability.durable = position
        waiting = self._waiting
        self._waiting = {}
        for confirms in waiting:
            confirms.became_durable()
        held = self._held_output
        self._held_output = []
        for outgoing in held:
            outgoing.is_waiting = False
            self._container.flush_list.append(outgoing)

    def abandon(self) -> None:
        """This server is not the root any more: nobody is told that anything is committed."""
        abandoned = [*self._container.answer_list, *self._waiting]
        self._container.answer_list.clear()
        self._waiting = {}
        for answer in abandoned:
            answer.abandoned()

    def forget(self, outgoing: Outgoing) -> None:
        """This connection's output waits no longer, because its waiting part was dropped."""
        if outgoing.is_waiting:
            outgoing.is_waiting = False
            self._held_output.remove(outgoing)
            self._container.flush_list.append(outgoing)
