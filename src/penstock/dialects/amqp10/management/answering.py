"""From a request to its response: which function a method at a location means."""

from typing import Final

from penstock.broker.errors import Refusal
from penstock.dialects.amqp10.management.arguments import type_name
from penstock.dialects.amqp10.management.bindings import (
    delete_binding,
    get_bindings,
    post_binding,
)
from penstock.dialects.amqp10.management.caller import Caller
from penstock.dialects.amqp10.management.exchanges import delete_exchange, put_exchange
from penstock.dialects.amqp10.management.location import decode_segment, read_location
from penstock.dialects.amqp10.management.messages import ManagementRequest, ManagementResponse
from penstock.dialects.amqp10.management.queues import (
    delete_queue,
    get_queue,
    purge_queue,
    put_queue,
)
from penstock.dialects.amqp10.management.refusals import (
    NOT_ALLOWED,
    NOT_FOUND,
    RequestRefusal,
    bad_request,
    status_of,
)
from penstock.dialects.noting import Noting
from penstock.dialects.principal import Principal

# What links attach to: RabbitMQ's address, and the one that AMQP Management reserves.
ADDRESSES: Final = frozenset({"/management", "$management"})

GET: Final = "GET"
PUT: Final = "PUT"
POST: Final = "POST"
DELETE: Final = "DELETE"


def answer(
    request: ManagementRequest,
    principal: Principal,
    connection_number: int,
    node_name: str,
    noting: Noting | None,
    now: int,
) -> ManagementResponse:
    """Do it, or say why not. A response may only be sent once what was declared is durable."""
    try:
        if request.fault:
            raise bad_request(request.fault)
        return _done(request, Caller(principal, connection_number, node_name, noting, now))
    except Refusal as refusal:
        return ManagementResponse(status_of(refusal, request.method == PUT), refusal.text)


def _done(request: ManagementRequest, caller: Caller) -> ManagementResponse:
    location = read_location(request.to)
    segments = location.segments
    count = len(segments)
    if request.method in {GET, DELETE} and request.body is not None:
        raise bad_request(f"{request.method} takes no body, got {type_name(request.body)}")
    if segments[0] == "queues" and count == 2:
        return _at_queue(request, caller, decode_segment(segments[1]))
    if segments[0] == "queues" and count == 3 and segments[2] == "messages":
        if request.method == DELETE:
            return purge_queue(caller, decode_segment(segments[1]))
        raise _not_allowed(request, DELETE)
    if segments[0] == "exchanges" and count == 2:
        return _at_exchange(request, caller, decode_segment(segments[1]))
    if segments == ["bindings"]:
        if request.method == POST:
            return post_binding(caller, request.body)
        if request.method == GET:
            return get_bindings(caller, location.query)
        raise _not_allowed(request, "GET, POST")
    if segments[0] == "bindings" and count == 2:
        if request.method == DELETE:
            return delete_binding(caller, segments[1])
        raise _not_allowed(request, DELETE)
    if segments == ["auth", "tokens"]:
        raise _no_tokens(request)
    raise RequestRefusal(NOT_FOUND, f"no resource at '{request.to}'")


def _at_queue(request: ManagementRequest, caller: Caller, name: str) -> ManagementResponse:
    if request.method == PUT:
        return put_queue(caller, name, request.body)
    if request.method == GET:
        return get_queue(caller, name)
    if request.method == DELETE:
        return delete_queue(caller, name)
    raise _not_allowed(request, "DELETE, GET, PUT")


def _at_exchange(request: ManagementRequest, caller: Caller, name: str) -> ManagementResponse:
    if request.method == PUT:
        return put_exchange(caller, name, request.body)
    if request.method == DELETE:
        return delete_exchange(caller, name)
    raise _not_allowed(request, "DELETE, PUT")


def _no_tokens(request: ManagementRequest) -> RequestRefusal:
    """OAuth clients renew their token here. This server has no login with tokens, so there is none
    to renew.
    """
    if request.method != PUT:
        return _not_allowed(request, PUT)
    if not isinstance(request.body, bytes):
        return bad_request(f"a token must be binary, not {type_name(request.body)}")
    return bad_request("this connection did not log in with a token")


def _not_allowed(request: ManagementRequest, allowed: str) -> RequestRefusal:
    return RequestRefusal(
        NOT_ALLOWED, f"'{request.method}' not allowed at '{request.to}', only {allowed}"
    )
