"""Reply-to: a queue's name in AMQP 0-9-1, an address in AMQP 1.0.

A name becomes `/queues/:name`, percent-encoded, and such an address a name. Everything else that
applications put there (URIs, addresses of exchanges) is left as it is.
"""

from typing import Final
from urllib.parse import quote, unquote

_QUEUES: Final = "/queues/"


def address_of_queue(name: str) -> str:
    return _QUEUES + quote(name, safe="") if _is_name(name) else name


def queue_of_address(address: str) -> str:
    if not address.startswith(_QUEUES):
        return address
    name = unquote(address[len(_QUEUES) :], errors="surrogateescape")
    # An address that no queue name is turned into does not name a queue.
    if not _is_name(name) or address_of_queue(name) != address:
        return address
    return name


def _is_name(text: str) -> bool:
    return bool(text) and text[0] != "/" and "://" not in text
