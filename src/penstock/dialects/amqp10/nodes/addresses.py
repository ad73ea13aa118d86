"""Addresses of nodes: RabbitMQ 4's grammar, its older one, and bare names.

    /queues/:queue   /exchanges/:exchange   /exchanges/:exchange/:routing-key

Segments are percent-encoded UTF-8. The older forms mean the same, `/topic/:key` is the exchange
`amq.topic`. What does not begin with a slash is a bare name, not encoded, of a queue or else of an
exchange; capabilities of the terminus may turn that order round.
"""

from typing import Final
from urllib.parse import quote

from penstock.broker.bound_exchanges import DEFAULT_EXCHANGE
from penstock.broker.errors import PreconditionFailed
from penstock.broker.names import NAME_OCTETS_MAX
from penstock.broker.vhost import VirtualHost

GRAMMAR: Final = (
    "expected /queues/:queue, /exchanges/:exchange, /exchanges/:exchange/:routing-key "
    "with percent-encoded segments, or the bare name of a queue or an exchange"
)
# How much of the client's own text an error repeats.
_SHOWN_CHARACTERS_MAX: Final = 80
_HEX_DIGITS: Final = frozenset(b"0123456789abcdefABCDEF")
_QUEUE_FORMS: Final = ("/queues/", "/queue/", "/amq/queue/")
_EXCHANGE_FORMS: Final = ("/exchanges/", "/exchange/")
_TOPIC_FORM: Final = "/topic/"
_TOPIC_EXCHANGE: Final = "amq.topic"


class SourceAddress:
    """Where a link receives from: a queue, or an exchange that it subscribes to."""

    def __init__(self, queue: str | None, exchange: str, routing_key: str | None) -> None:
        # None when an exchange is meant.
        self.queue: str | None = queue
        self.exchange: str = exchange
        self.routing_key: str | None = routing_key
        # Whether the address was a bare name.
        self.is_bare: bool = False


class TargetAddress:
    """Where messages of a link are published to. A queue is the default exchange with its name."""

    def __init__(self, exchange: str, routing_key: str | None) -> None:
        self.exchange: str = exchange
        # None: the subject of each message is its key, and a message without one has the empty key.
        self.routing_key: str | None = routing_key
        self.is_bare: bool = False

    @property
    def queue(self) -> str | None:
        """The queue that is meant; None for an exchange."""
        return self.routing_key if self.exchange == DEFAULT_EXCHANGE else None


def parse_target(
    address: str | None, vhost: VirtualHost, prefers_exchange: bool = False
) -> TargetAddress | None:
    """None is the anonymous terminus. Raises `PreconditionFailed`; the existence of the node is not
    checked here.
    """
    if address is None:
        return None
    node = parse_source(address, vhost, prefers_exchange)
    if node.queue is None:
        return TargetAddress(node.exchange, node.routing_key)
    target = TargetAddress(DEFAULT_EXCHANGE, node.queue)
    target.is_bare = node.is_bare
    return target


def parse_source(address: str, vhost: VirtualHost, prefers_exchange: bool = False) -> SourceAddress:
    """As `parse_target`, for an address that is given."""
    if not address.startswith("/"):
        return _bare(address, vhost, prefers_exchange)
    for form in _QUEUE_FORMS:
        if address.startswith(form):
            return SourceAddress(_only_segment(address, form, "queue name"), "", None)
    for form in _EXCHANGE_FORMS:
        if address.startswith(form):
            return _exchange(address, address[len(form) :].split("/"))
    if address.startswith(_TOPIC_FORM):
        key = _only_segment(address, _TOPIC_FORM, "routing key")
        return SourceAddress(None, _TOPIC_EXCHANGE, key)
    raise _refused(address, "it does not have a supported form")


def queue_address(name: str) -> str:
    return "/queues/" + _quoted(name)


def exchange_address(name: str, routing_key: str | None) -> str:
    address = "/exchanges/" + _quoted(name)
    return address if routing_key is None else f"{address}/{_quoted(routing_key)}"


def check_routing_key(key: str) -> None:
    """For keys that come from a message: they are kept as short strings."""
    if len(key.encode(errors="surrogateescape")) > NAME_OCTETS_MAX:
        raise PreconditionFailed(f"the routing key is longer than {NAME_OCTETS_MAX} bytes")


def _bare(name: str, vhost: VirtualHost, prefers_exchange: bool) -> SourceAddress:
    if not name:
        raise _refused(name, "it is empty")
    _check_segment(name, name, "name")
    is_exchange = name in vhost.exchanges
    if is_exchange and (prefers_exchange or name not in vhost.queues):
        return SourceAddress(None, name, None)
    if prefers_exchange and name not in vhost.queues:
        # A missing node is created, or reported as missing, as the kind that was asked for.
        return SourceAddress(None, name, None)
    found = SourceAddress(name, "", None)
    found.is_bare = True
    return found


def _exchange(address: str, segments: list[str]) -> SourceAddress:
    if len(segments) > 2:
        raise _refused(address, "a slash inside a routing key must be written as %2F")
    name = _decoded(address, segments[0], "exchange name")
    if not name:
        raise _refused(address, "the exchange name is empty")
    if len(segments) == 1:
        return SourceAddress(None, name, None)
    return SourceAddress(None, name, _decoded(address, segments[1], "routing key"))


def _only_segment(address: str, form: str, what: str) -> str:
    segment = address[len(form) :]
    if "/" in segment:
        raise _refused(address, f"a slash inside a {what} must be written as %2F")
    text = _decoded(address, segment, what)
    if not text:
        raise _refused(address, f"the {what} is empty")
    return text


def _decoded(address: str, segment: str, what: str) -> str:
    pieces = segment.encode(errors="surrogateescape").split(b"%")
    octets = [pieces[0]]
    for piece in pieces[1:]:
        digits = piece[:2]
        if len(digits) < 2 or digits[0] not in _HEX_DIGITS or digits[1] not in _HEX_DIGITS:
            raise _refused(address, f"a % in the {what} is not followed by two hexadecimal digits")
        octets.append(bytes([int(digits, 16)]))
        octets.append(piece[2:])
    try:
        text = b"".join(octets).decode()
    except UnicodeDecodeError:
        raise _refused(address, f"the {what} is not valid UTF-8") from None
    _check_segment(address, text, what)
    return text


def _check_segment(address: str, text: str, what: str) -> None:
    if len(text.encode(errors="surrogateescape")) > NAME_OCTETS_MAX:
        raise _refused(address, f"the {what} is longer than {NAME_OCTETS_MAX} bytes")


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogateescape")


def _refused(address: str, reason: str) -> PreconditionFailed:
    shown = address
    if len(address) > _SHOWN_CHARACTERS_MAX:
        shown = address[:_SHOWN_CHARACTERS_MAX] + "..."
    return PreconditionFailed(f"invalid address '{shown}': {reason}; {GRAMMAR}")
