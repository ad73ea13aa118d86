"""Messages that wait until the promise they depend on is durable (section 8 of the protocol)."""

from typing import Final

from penstock.cluster.messages import ControlMessage, encode_message
from penstock.cluster.promises import Promises
from penstock.cluster.record import ClusterRecord
from penstock.cluster.rules import ElectionRules
from penstock.cluster.surroundings import PeerLines

# A disk that hangs while so many messages come has ended the root's lease before. The oldest
# message is dropped then; all control messages are repeated.
WAITING_MAX: Final = 1000


class WaitingMessage:
    """Held by the outbox."""

    def __init__(self, version: int, epoch: int, name: str, message: ControlMessage) -> None:
        self.version: int = version
        self.epoch: int = epoch
        self.name: str = name
        self.message: ControlMessage = message


class Outbox:
    """Held by the election and by the root's role. Makes messages, and sends each when it may."""

    def __init__(self, lines: PeerLines, promises: Promises, rules: ElectionRules) -> None:
        self._lines: PeerLines = lines
        self._promises: Promises = promises
        self._rules: ElectionRules = rules
        self._waiting: list[WaitingMessage] = []

    def message(self, kind: int, epoch: int, record: ClusterRecord | None) -> ControlMessage:
        return ControlMessage(kind, self._promises.record.cluster_id, epoch, record)

    def is_durable(self, version: int) -> bool:
        """Whether what depends on a promise may happen."""
        return not self._rules.durability or self._promises.is_durable(version)

    def post(self, name: str, message: ControlMessage) -> None:
        """Send once everything that was promised so far is durable."""
        self.post_after(self._promises.version, name, message)

    def post_after(self, version: int, name: str, message: ControlMessage) -> None:
        """Send once this version of the promises is durable, unless the epoch is over by then."""
        self._waiting.append(WaitingMessage(version, self._promises.epoch, name, message))
        if len(self._waiting) > WAITING_MAX:
            del self._waiting[0]

    def send_now(self, name: str, message: ControlMessage) -> None:
        """For what promises nothing."""
        self._lines.send(name, message.kind, encode_message(message))

    def release(self) -> bool:
        """Send what may leave, in order; whether anything was there."""
        ready = [waiting for waiting in self._waiting if self.is_durable(waiting.version)]
        if not ready:
            return False
        self._waiting = [w for w in self._waiting if not self.is_durable(w.version)]
        for waiting in ready:
            # If a higher epoch has been promised meanwhile, an answer that belongs to the earlier
            # one must not leave any more (R7).
            if waiting.epoch == self._promises.epoch:
                self.send_now(waiting.name, waiting.message)
        return True
