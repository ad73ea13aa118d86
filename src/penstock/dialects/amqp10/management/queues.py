"""`/queues/:queue` and `/queues/:queue/messages`."""

from typing import Final

from penstock.broker.names import described
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import (
    NO_CONNECTION,
    DeclareQueue,
    Deleted,
    DeleteQueue,
    Purged,
    PurgeQueue,
    QueueDeclared,
)
from penstock.dialects.amqp10.management.arguments import wire_arguments
from penstock.dialects.amqp10.management.caller import Caller
from penstock.dialects.amqp10.management.fields import BodyFields
from penstock.dialects.amqp10.management.messages import ManagementResponse
from penstock.dialects.amqp10.management.names import check_name, check_not_reserved
from penstock.dialects.amqp10.management.refusals import NOT_FOUND, RequestRefusal, bad_request
from penstock.wire.amqp10.values import Array, UInt, ULong

OK: Final = 200
CREATED: Final = 201

_PROPERTIES: Final = ("durable", "exclusive", "auto_delete", "arguments")
_STRINGS: Final = 0xB1  # the constructor of an array of strings


def get_queue(caller: Caller, name: str) -> ManagementResponse:
    """Needs no permission, like a passive declaration."""
    queue = caller.vhost.queues.get(name)
    if queue is None:
        what = described("queue", name, caller.vhost.name)
        raise RequestRefusal(NOT_FOUND, f"{what} not found")
    return ManagementResponse(OK, _told(caller, queue))


def put_queue(caller: Caller, name: str, body: object) -> ManagementResponse:
    fields = BodyFields("queue property", _PROPERTIES, body)
    if not name:
        raise bad_request("declare queue with empty name not allowed")
    check_name("queue", name)
    check_not_reserved("queue", name, caller.vhost.name)
    command = DeclareQueue(
        name,
        fields.flag("durable", True),
        fields.flag("exclusive", False),
        fields.flag("auto_delete", False),
        False,
        fields.arguments(),
        caller.connection_number,
    )
    result = caller.apply(command)
    assert isinstance(result, QueueDeclared), "that is what declaring a queue results in"
    status = CREATED if result.created else OK
    return ManagementResponse(status, _told(caller, caller.vhost.queues[name]))


def delete_queue(caller: Caller, name: str) -> ManagementResponse:
    """Deleting a missing exchange succeeds."""
    check_name("queue", name)
    result = caller.apply(DeleteQueue(name, False, False, caller.connection_number))
    assert isinstance(result, Deleted), "that is what deleting a queue results in"
    return _count(result.message_count)


def purge_queue(caller: Caller, name: str) -> ManagementResponse:
    command = PurgeQueue(name, caller.connection_number)
    caller.check(command)
    queue = caller.vhost.queues.get(name)
    if queue is not None and queue.keeps_messages:
        what = described("queue", name, caller.vhost.name)
        raise bad_request(f"purge not supported by {what}")
    result = caller.apply(command)
    assert isinstance(result, Purged), "that is what purging results in"
    return _count(result.message_count)


def _told(caller: Caller, queue: MessageQueue) -> dict[object, object]:
    """Clients cast without a check: the types of the counts and of `replicas` matter."""
    return {
        "leader": caller.node_name,
        "replicas": Array(_STRINGS, [caller.node_name]),
        "message_count": ULong(queue.message_count),
        "consumer_count": UInt(queue.consumer_count),
        "name": queue.name,
        "vhost": caller.vhost.name,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive_owner != NO_CONNECTION,
        "type": queue.settings.queue_type.value,
        "arguments": wire_arguments(queue.arguments),
    }


def _count(messages: int) -> ManagementResponse:
    return ManagementResponse(OK, {"message_count": ULong(messages)})
