"""The type of queues that are declared without one, where the operator has set it for a virtual host.

As in RabbitMQ since 3.11: the queue is declared as if the client had named the type, so its arguments
have it afterwards. A queue that the type cannot be (exclusive, transient or deleted when unused) is
classic. Declaring a queue again without a type means whatever type it has, also where the default was
set after the queue was declared.
"""

import dataclasses

from penstock.broker.arguments import CLASSIC, TYPE_ARGUMENT
from penstock.broker.internal_queues import is_internal
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import DeclareQueue


def with_default_type(
    command: DeclareQueue, default: str, existing: MessageQueue | None
) -> DeclareQueue:
    if TYPE_ARGUMENT in command.arguments or is_internal(command.name, command.arguments):
        return command
    if existing is not None:
        return _typed(command, existing.queue_type.value)
    is_lasting = command.durable and not command.exclusive and not command.auto_delete
    if default == CLASSIC.value or is_lasting:
        return _typed(command, default)
    return command


def _typed(command: DeclareQueue, queue_type: str) -> DeclareQueue:
    return dataclasses.replace(command, arguments={**command.arguments, TYPE_ARGUMENT: queue_type})
