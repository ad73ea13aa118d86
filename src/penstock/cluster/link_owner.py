"""What a link asks of, and tells, the one who has all links."""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr

from penstock.cluster.link_line import LinkLine
from penstock.cluster.peer_identity import Presented
from penstock.formats.octets import Malformed, read_u16
from penstock.formats.peer_limits import CONTROL_BYTES_MAX, FIRST_CONTROL_KIND, BadPeerMessage
from penstock.wire.amqp091.errors import ConnectionFault
from penstock.wire.amqp091.methods_generated import ClusterControl, ClusterStream
from penstock.wire.amqp091.reply_codes_generated import RESOURCE_ERROR, SYNTAX_ERROR


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkOwner(ABC):
    """Implemented by `PeerLinks`."""

    @abstractmethod
    def presentation(self, wanted: str, now: int) -> dict[str, object]:
        """What this server tells about itself; `wanted` is the name that it expects."""

    @abstractmethod
    def why_refused(self, presented: Presented, expected: str, now: int) -> str:
        """Why the peer may not have this link; empty if it may."""

    @abstractmethod
    def message_received(
        self, name: str, store_id: bytes, kind: int, octets: bytes, now: int
    ) -> None: ...

    # Links that peers dialled. Only one that was opened is ended.

    @abstractmethod
    def inbound_opened(self, line: LinkLine, presented: Presented, host: str, now: int) -> None: ...

    @abstractmethod
    def inbound_refused(self, presented: Presented, host: str, reason: str) -> None: ...

    @abstractmethod
    def inbound_ended(
        self, line: LinkLine, presented: Presented, reason: str, now: int
    ) -> None: ...

    # Links that we dialled, by the number of the attempt.

    @abstractmethod
    def outbound_opened(
        self, number: int, line: LinkLine, presented: Presented, now: int
    ) -> None: ...

    @abstractmethod
    def outbound_ended(self, number: int, reason: str, is_ours: bool, now: int) -> None:
        """Once, and the last call; also for one that was never opened. `is_ours` says that
        `LinkLine.end` was called, by whoever sends on it.
        """


def receive(owner: LinkOwner, presented: Presented, method: bytes, body: bytes, now: int) -> None:
    """Pass on one message. Raises a fault for one that is not valid."""
    method_id = read_u16(method, 2)
    is_control = method_id == ClusterControl.METHOD_ID
    kind = (ClusterControl.decode(method) if is_control else ClusterStream.decode(method)).kind
    if is_control != (kind >= FIRST_CONTROL_KIND):
        text = f"a message of kind {kind} does not belong into method {method_id} of class cluster"
        raise ConnectionFault(SYNTAX_ERROR, text)
    if is_control and len(body) > CONTROL_BYTES_MAX:
        text = f"control message of {len(body)} bytes, more than {CONTROL_BYTES_MAX}"
        raise ConnectionFault(RESOURCE_ERROR, text)
    try:
        owner.message_received(presented.name, presented.store_id, kind, body, now)
    except (BadPeerMessage, Malformed) as error:
        text = f"message of kind {kind} from '{presented.name}' is not valid: {error}"
        raise ConnectionFault(SYNTAX_ERROR, text) from error
