"""`/exchanges/:exchange`."""

from typing import Final

from penstock.broker.exchanges.kinds import DIRECT
from penstock.broker.topology import DeclareExchange, DeleteExchange
from penstock.dialects.amqp10.management.caller import Caller
from penstock.dialects.amqp10.management.fields import BodyFields
from penstock.dialects.amqp10.management.messages import ManagementResponse
from penstock.dialects.amqp10.management.names import (
    check_name,
    check_not_default,
    check_not_reserved,
)

NO_CONTENT: Final = 204

_PROPERTIES: Final = ("durable", "auto_delete", "type", "internal", "arguments")


def put_exchange(caller: Caller, name: str, body: object) -> ManagementResponse:
    fields = BodyFields("exchange property", _PROPERTIES, body)
    check_not_default(name)
    if name not in caller.vhost.exchanges:
        check_name("exchange", name)
        check_not_reserved("exchange", name, caller.vhost.name)
    command = DeclareExchange(
        name,
        fields.text("type", DIRECT),
        fields.flag("durable", True),
        fields.flag("auto_delete", False),
        fields.flag("internal", False),
        False,
        fields.arguments(),
    )
    caller.apply(command)
    return ManagementResponse(NO_CONTENT)


def delete_exchange(caller: Caller, name: str) -> ManagementResponse:
    """Deleting a missing exchange succeeds."""
    check_not_default(name)
    check_name("exchange", name)
    check_not_reserved("exchange", name, caller.vhost.name)
    caller.apply(DeleteExchange(name))
    return ManagementResponse(NO_CONTENT)
