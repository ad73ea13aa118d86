"""`/bindings`, `/bindings?src=...` and `/bindings/src=...;dstq=...;key=...;args=...`.

The last part of a location is empty for a binding without arguments, so that clients can make it
themselves; otherwise it is a hash, which they take from a listing.
"""

import base64
import hashlib
from typing import Final
from urllib.parse import quote

from penstock.broker.bound_exchanges import DEFAULT_EXCHANGE
from penstock.broker.exchanges.exchange import Binding
from penstock.broker.topology import BindExchange, BindQueue, UnbindExchange, UnbindQueue
from penstock.dialects.amqp10.management.arguments import wire_arguments
from penstock.dialects.amqp10.management.caller import Caller
from penstock.dialects.amqp10.management.fields import BodyFields
from penstock.dialects.amqp10.management.location import read_binding_location
from penstock.dialects.amqp10.management.messages import ManagementResponse
from penstock.dialects.amqp10.management.names import (
    check_length,
    check_name,
    check_not_default,
)
from penstock.dialects.amqp10.management.refusals import bad_request

OK: Final = 200
NO_CONTENT: Final = 204
# Tells the bindings with one source, destination and key apart.
HASH_OCTETS: Final = 8

_FIELDS: Final = (
    "source",
    "destination_queue",
    "destination_exchange",
    "binding_key",
    "arguments",
)


def post_binding(caller: Caller, body: object) -> ManagementResponse:
    fields = BodyFields("binding field", _FIELDS, body)
    if not fields.has("source"):
        raise bad_request("missing 'source' in binding")
    to_queue = fields.has("destination_queue")
    if to_queue == fields.has("destination_exchange"):
        raise bad_request("a binding needs either 'destination_queue' or 'destination_exchange'")
    source = fields.text("source", "")
    destination = fields.text("destination_queue" if to_queue else "destination_exchange", "")
    key = fields.text("binding_key", "")
    arguments = fields.arguments()
    _check_ends(source, to_queue, destination)
    check_length("binding key", key)
    if to_queue:
        caller.apply(BindQueue(destination, source, key, arguments, caller.connection_number))
    else:
        caller.apply(BindExchange(destination, source, key, arguments))
    return ManagementResponse(NO_CONTENT)


def delete_binding(caller: Caller, segment: str) -> ManagementResponse:
    """Deleting a missing binding succeeds; permissions are checked all the same."""
    location = read_binding_location(segment)
    source = location.source
    destination = location.destination
    to_queue = location.to_queue
    key = location.key
    _check_ends(source, to_queue, destination)
    caller.check(_unbind(caller, source, to_queue, destination, key, {}))
    for binding in _found(caller, source, to_queue, destination, key):
        if arguments_hash(binding.arguments) == location.arguments_hash:
            caller.apply(_unbind(caller, source, to_queue, destination, key, binding.arguments))
            break
    return ManagementResponse(NO_CONTENT)


def get_bindings(caller: Caller, query: dict[str, str]) -> ManagementResponse:
    """Needs no permission. Keys are compared as texts, also patterns of topics."""
    for name in ("src", "key"):
        if name not in query:
            raise bad_request(f"missing '{name}' in query")
    to_queue = "dstq" in query
    if to_queue == ("dste" in query):
        raise bad_request("a query needs either 'dstq' or 'dste'")
    destination = query["dstq" if to_queue else "dste"]
    found = _found(caller, query["src"], to_queue, destination, query["key"])
    return ManagementResponse(OK, [_told(binding) for binding in found])


def arguments_hash(arguments: dict[str, object]) -> str:
    if not arguments:
        return ""
    # The representation tells 1 from 1.0 and true, as the identity of a binding does.
    octets = repr(sorted(arguments.items())).encode(errors="surrogatepass")
    digest = hashlib.blake2b(octets, digest_size=HASH_OCTETS).digest()
    return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def _check_ends(source: str, to_queue: bool, destination: str) -> None:
    check_not_default(source)
    check_name("exchange", source)
    if not to_queue:
        check_not_default(destination)
    check_name("queue" if to_queue else "exchange", destination)


def _unbind(
    caller: Caller,
    source: str,
    to_queue: bool,
    destination: str,
    key: str,
    arguments: dict[str, object],
) -> UnbindQueue | UnbindExchange:
    if to_queue:
        return UnbindQueue(destination, source, key, arguments, caller.connection_number)
    return UnbindExchange(destination, source, key, arguments)


def _found(
    caller: Caller, source: str, to_queue: bool, destination: str, key: str
) -> list[Binding]:
    vhost = caller.vhost
    if to_queue:
        queue = vhost.queues.get(destination)
        if queue is None:
            return []
        if source == DEFAULT_EXCHANGE:
            # The implicit binding of every queue to the default exchange.
            default = vhost.exchanges[DEFAULT_EXCHANGE]
            return [Binding(default, queue, None, key, {})] if key == queue.name else []
        arriving = vhost.bindings.to_destination(queue)
    else:
        exchange = vhost.exchanges.get(destination)
        arriving = [] if exchange is None else vhost.bindings.to_destination(exchange)
    return [
        binding
        for binding in arriving
        if binding.source.name == source and binding.routing_key == key
    ]


def _told(binding: Binding) -> dict[object, object]:
    kind = "queue" if binding.destination_queue is not None else "exchange"
    source = binding.source.name
    destination = binding.destination_name
    key = binding.routing_key
    location = (
        f"/bindings/src={_quoted(source)};dst{kind[0]}={_quoted(destination)}"
        f";key={_quoted(key)};args={arguments_hash(binding.arguments)}"
    )
    return {
        "source": source,
        f"destination_{kind}": destination,
        "binding_key": key,
        "arguments": wire_arguments(binding.arguments),
        "location": location,
    }


def _quoted(text: str) -> str:
    return quote(text, safe="")
