"""Clients of one root: what they do in a tick, and what of it is committed."""

from typing import Final

from penstock.ha.primary import Primary
from penstock.simulation.dice import Dice
from penstock.simulation.protocol.ledger import POLICY, ProtocolLedger
from penstock.simulation.protocol.rules import ProtocolRules
from penstock.simulation.protocol.toy_state import ToyState
from penstock.simulation.protocol.toy_store import (
    DEQUEUED,
    ENQUEUED,
    GONE,
    TEXT,
    ToyChange,
    ToyRecord,
    encode_change,
    encode_head,
)

QUEUES_MAX: Final = 3
EPOCH_SHIFT: Final = 40
# Changes of one tick, as often as they are listed.
SIZES: Final = (1, 1, 2, 4)


class Term:
    """Held by a server while it is the root of one epoch."""

    def __init__(
        self,
        epoch: int,
        state: ToyState,
        dice: Dice,
        ledger: ProtocolLedger,
        rules: ProtocolRules,
    ) -> None:
        self._state: ToyState = state
        self._dice: Dice = dice
        self._ledger: ProtocolLedger = ledger
        self._rules: ProtocolRules = rules
        self.epoch: int = epoch
        self._count: int = 0
        self._batch: list[ToyChange] = []
        # By queue and id: the operation that enqueued it; what is with consumers; what has been.
        self._made_by: dict[tuple[int, int], int] = {}
        self._out: set[tuple[int, int]] = set()
        self._delivered: set[tuple[int, int]] = set()
        self._committed_k: int = -1
        self._committed_position: int = -1
        # Positions of the journal, by k.
        self._positions: list[int] = [state.journal.position]

    def committed(self, position: int, k: int) -> None:
        journal = self._state.journal
        assert position > self._committed_position, "positions are announced in order"
        assert k >= self._committed_k
        assert self._positions[k] <= position
        if self._rules.ha.own_flush:
            assert position <= journal.durable, "what is committed is durable here"
        self._committed_position = position
        self._committed_k = k

    def written(self, primary: Primary, changes: list[ToyChange]) -> tuple[list[bytes], int, int]:
        """Journal the tick's changes, which are in memory already, as one operation."""
        epoch, k = primary.next_number()
        assert epoch == self.epoch
        self._state.memory.syn = (epoch, k)
        self._state.append(ToyRecord("operation", epoch, k, tuple(changes)))
        self._ledger.operation(epoch, tuple(changes))
        for change in changes:
            if change.kind == ENQUEUED:
                self._made_by[change.queue, change.first] = k
        pieces = [encode_head(epoch, k), *[encode_change(change) for change in changes]]
        self._positions.append(self._state.journal.position)
        return pieces, sum(map(len, pieces)), self._state.journal.position

    def serve(self) -> list[ToyChange]:
        """The changes of one tick."""
        self._batch = []
        dice = self._dice
        for _ in range(dice.choose(SIZES)):
            self._act(dice.fraction())
        return self._batch

    def _act(self, fraction: float) -> None:
        queues = self._queues()
        if len(queues) < QUEUES_MAX or fraction < 0.01:
            self._declare(queues)
        elif fraction < 0.5:
            self._publish(self._dice.choose(queues), self._new_body())
        elif fraction < 0.66:
            self._deliver(False)
        elif fraction < 0.69:
            self._deliver(True)
        elif fraction < 0.8:
            self._settle(True)
        elif fraction < 0.87:
            self._remove(queues, True)
        elif fraction < 0.9:
            self._remove(queues, False)
        elif fraction < 0.96:
            self._settle(False)
        elif fraction < 0.98:
            ledger = self._ledger
            ledger.published += 1
            self._change(ToyChange(TEXT, 0, 0, 0, b"%s=%d" % (POLICY, ledger.published)))
        else:
            self._delete(queues)

    def _queues(self) -> list[int]:
        values = self._state.memory.values
        return sorted(int(key[6:]) for key in values if key.startswith(b"queue/"))

    def _change(self, change: ToyChange) -> None:
        self._state.memory.change(change)
        self._batch.append(change)

    def _next_id(self) -> int:
        self._count += 1
        return self.epoch << EPOCH_SHIFT | self._count

    def _new_body(self) -> bytes:
        self._ledger.published += 1
        return b"message %d" % self._ledger.published

    def _declare(self, queues: list[int]) -> None:
        if len(queues) < QUEUES_MAX:
            self._change(ToyChange(TEXT, 0, 0, 0, b"queue/%d=yes" % self._next_id()))

    def _delete(self, queues: list[int]) -> None:
        number = queues[0]
        memory = self._state.memory
        self._ledger.dropped.update(memory.queues.get(number, {}).values())
        self._ledger.sighted("queue deleted")
        self._change(ToyChange(TEXT, 0, 0, 0, b"queue/%d=" % number))
        self._change(ToyChange(GONE, number))

    def _publish(self, number: int, body: bytes) -> None:
        self._change(ToyChange(ENQUEUED, number, self._next_id(), 1, body))

    def _places(self) -> list[tuple[int, int]]:
        """What is not with a consumer, committed or not."""
        queues = self._state.memory.queues
        return sorted(
            (number, position)
            for number, queue in queues.items()
            for position in queue
            if (number, position) not in self._out
        )

    def _is_ready(self, place: tuple[int, int]) -> bool:
        """R16: when its operation is committed; an inherited one when position 0 is."""
        if place[1] >> EPOCH_SHIFT < self.epoch or not self._rules.deliver_committed:
            return True
        return self._made_by.get(place, 1 << 60) <= self._committed_k

    def _deliver(self, is_settled: bool) -> None:
        for place in self._places():
            if not self._is_ready(place):
                continue
            is_inherited = place[1] >> EPOCH_SHIFT < self.epoch and self._rules.flag_inherited
            self._ledger.delivery(*place, is_inherited or place in self._delivered)
            self._delivered.add(place)
            if is_settled:
                self._consume(place)
            else:
                self._out.add(place)
            return

    def _consume(self, place: tuple[int, int]) -> None:
        body = self._state.memory.queues[place[0]][place[1]]
        self._ledger.consumed.add(body)
        self._change(ToyChange(DEQUEUED, *place, 1))

    def _settle(self, is_acknowledged: bool) -> None:
        """A consumer acknowledges one, or gives it back."""
        queues = self._state.memory.queues
        mine = sorted(place for place in self._out if place[1] in queues.get(place[0], {}))
        if mine:
            place = self._dice.choose(mine)
            self._out.discard(place)
            if is_acknowledged:
                self._consume(place)

    def _remove(self, queues: list[int], is_moved: bool) -> None:
        """A dead letter, or an expiry; both hit what is not committed, too."""
        places = self._places()
        if not places:
            return
        place = self._dice.choose(places)
        body = self._state.memory.queues[place[0]][place[1]]
        self._change(ToyChange(DEQUEUED, *place, 1))
        if is_moved:
            self._publish(self._dice.choose(queues), body)
            self._ledger.sighted("moved")
        else:
            self._ledger.dropped.add(body)
