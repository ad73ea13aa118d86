"""From an address to its publish target, for a user who may publish there."""

from typing import Final

from penstock.broker.access.permissions import Permission
from penstock.broker.message import Address
from penstock.broker.publishing.target import Target, resolve_target
from penstock.dialects.amqp10.messages.properties import TransferProperties
from penstock.dialects.amqp10.nodes.addresses import TargetAddress
from penstock.dialects.amqp10.nodes.nodes import check_target
from penstock.dialects.principal import Principal
from penstock.dialects.turn import plain_units

# Tells our keys in `Principal.targets` from method payloads of AMQP 0-9-1, which begin with 0.
_KEY_START: Final = b"\x01"


def find_target(principal: Principal, address: TargetAddress, routing_key: str) -> Target:
    """The target of an address for a user, kept until the topology changes. Raises a `Refusal`."""
    exchange = address.exchange.encode(errors="surrogateescape")
    key = _KEY_START + exchange + b"\x00" + routing_key.encode(errors="surrogateescape")
    target = principal.targets.get(key)
    vhost = principal.vhost
    if target is not None and target.generation == vhost.generation:
        return target
    check_target(principal, vhost, address)
    found = vhost.exchanges[address.exchange]
    principal.check_topic(Permission.WRITE, found, routing_key)
    target = resolve_target(vhost.routing, found, Address(address.exchange, routing_key, b""))
    target.mandatory = True
    target.units = plain_units(target)
    target.is_plain = target.is_fixed and target.reaches_any
    principal.keep(key, target)
    return target


def user_matches(properties: TransferProperties, user: str) -> bool:
    """A message that names its sender must name the one who logged in."""
    user_id = properties.user_id()
    return user_id is None or user_id == user.encode(errors="surrogateescape")
