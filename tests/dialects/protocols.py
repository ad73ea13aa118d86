"""What a connection speaks, for tests that look behind `Connection.protocol`."""

from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.connection import Connection as Connection091
from penstock.dialects.amqp10.connection import Connection as Connection10
from penstock.dialects.connection import Connection


def amqp091_of(connection: Connection) -> Connection091:
    protocol = connection.protocol
    assert isinstance(protocol, Connection091)
    return protocol


def amqp10_of(connection: Connection) -> Connection10:
    protocol = connection.protocol
    assert isinstance(protocol, Connection10)
    return protocol


def channel_of(connection: Connection) -> Channel:
    """The first one that is open."""
    return next(iter(amqp091_of(connection)._channels.values()))
