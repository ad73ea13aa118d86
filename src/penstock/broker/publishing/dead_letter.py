"""Where messages go that die in a queue, and the `x-death` header that records their deaths.

The header is RabbitMQ's: one entry per (queue, reason), newest first, with a count. A message that
went round a cycle without being rejected by anybody is dropped, or it would go round for ever.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.header_values import Long, Timestamp
from penstock.broker.message import NO_EXPIRATION, Address, Message
from penstock.broker.names import NAME_OCTETS_MAX
from penstock.broker.publishing.publish import publish_resolved
from penstock.broker.publishing.target import target_by_keys
from penstock.broker.queues.message_queue import DeathReason, MessageQueue
from penstock.broker.routing_table import RoutingTable

DEATHS: Final = "x-death"
DELIVERY_COUNT: Final = "x-delivery-count"
# Deaths in one queue that are counted; the count of a message that died more often stays there.
COUNT_MAX: Final = 2**63 - 1


def dead_letter(
    vhost: RoutingTable, queue: MessageQueue, entry: QueueEntry, reason: DeathReason, now: int
) -> None:
    """Publish a dead entry to its queue's dead-letter exchange; without one it is dropped."""
    settings = queue.settings
    name = settings.dead_letter_exchange
    if name is None:
        return
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        return
    message = entry.message
    routing_key = settings.dead_letter_routing_key
    keys = [routing_key] if routing_key is not None else message.routing_keys()
    headers = dict(message.properties.headers())
    headers.pop(DELIVERY_COUNT, None)
    if routing_key is not None:
        headers.pop("CC", None)
    deaths = record_death(headers, queue.name, reason, message, vhost.wall(now))
    properties = message.properties.rewritten(headers, drop_expiration=True)
    dead = Message(Address(name, said_key(keys[0]), b""), properties, message.body, message.origin)
    # One batch of the journal: it leaves this queue and reaches the others, or neither.
    dead.through_journal = queue.journals(message)
    target = target_by_keys(vhost, exchange, dead.address, keys, properties)
    target.queues = [found for found in target.queues if not is_automatic_cycle(found.name, deaths)]
    publish_resolved(vhost, target, dead, None, now)


def said_key(key: str) -> str:
    """A queue's argument may be longer than any key that a delivery can name: then deliveries name
    its beginning, while routing uses all of it.
    """
    octets = key.encode("utf-8", "surrogateescape")
    if len(octets) <= NAME_OCTETS_MAX:
        return key
    return octets[:NAME_OCTETS_MAX].decode("utf-8", "ignore")


def record_death(
    headers: dict[str, object], queue: str, reason: DeathReason, message: Message, wall_ms: int
) -> list[dict[str, object]]:
    """Put this death in front of the earlier ones, or count it up; returns the new list."""
    known = headers.get(DEATHS)
    earlier: list[dict[str, object]] = []
    if isinstance(known, list):
        earlier = [dict(death) for death in known if isinstance(death, dict)]
    current: dict[str, object] | None = None
    others: list[dict[str, object]] = []
    for death in earlier:
        if death.get("queue") == queue and death.get("reason") == reason.value:
            current = death
        else:
            others.append(death)
    if current is None:
        current = {
            "count": Long(1),
            "reason": reason.value,
            "queue": queue,
            "time": Timestamp(wall_ms // 1000),
            "exchange": message.address.exchange,
            "routing-keys": message.routing_keys(),
        }
        if message.properties.expiration_ms != NO_EXPIRATION:
            current["original-expiration"] = str(message.properties.expiration_ms)
    else:
        count = current.get("count")
        # A client can publish a message with any count.
        current["count"] = Long(min((count if isinstance(count, int) else 0) + 1, COUNT_MAX))
    deaths = [current, *others]
    headers[DEATHS] = deaths
    if not earlier:
        headers["x-first-death-reason"] = reason.value
        headers["x-first-death-queue"] = queue
        headers["x-first-death-exchange"] = message.address.exchange
    return deaths


def is_automatic_cycle(queue: str, deaths: list[dict[str, object]]) -> bool:
    """Whether the message already died in this queue and nobody rejected it since."""
    for death in deaths:
        if death.get("reason") == DeathReason.REJECTED.value:
            return False
        if death.get("queue") == queue:
            return True
    return False
