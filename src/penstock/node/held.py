"""What a node holds in memory on behalf of clients, added up from counters.

It is computed a few times a second, so it costs a step per queue, connection and link and none per
message: for unacknowledged messages, whose size is not summed up, a sample is used. A message that
is in several queues counts in each of them. Messages that were paged out do not count.
"""

from collections.abc import Iterable
from typing import Final

from penstock.broker.state import BrokerState
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp10.links.suspended_links import ResumableLinks
from penstock.dialects.connection import Connection

# What a message costs beside its body: the objects of message and entry, and their slots in lists.
# Measured as the growth of a process that takes a million messages without a body; the compiled
# build's is less.
MESSAGE_BYTES: Final = 256


def held_bytes(state: BrokerState, connections: Iterable[Connection], links: ResumableLinks) -> int:
    """The bytes of messages, of unfinished input and of unsent output."""
    octets = links.held_bytes(MESSAGE_BYTES)
    for vhost in state.vhosts.values():
        octets += _held_by_vhost(vhost)
    for connection in connections:
        octets += connection.held_bytes(MESSAGE_BYTES)
    return octets


def _held_by_vhost(vhost: VirtualHost) -> int:
    line = vhost.delay_line
    octets = line.octets + line.waiting.count * MESSAGE_BYTES
    for queue in vhost.queues.values():
        octets += queue.held_bytes(MESSAGE_BYTES)
    return octets
