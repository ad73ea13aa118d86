"""What declaring a partitioned stream means in commands for its partitions."""

from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.exchanges.partitioned import (
    COUNT_ARGUMENT,
    KIND,
    PARTITIONS_MAX,
    STREAM_ARGUMENTS,
    PartitionedStreamExchange,
)
from penstock.broker.topology import BindQueue, DeclareExchange, DeclareQueue, DeleteExchange


class PartitionedStream:
    """A partitioned stream as it is listed."""

    def __init__(self, exchange: PartitionedStreamExchange) -> None:
        self.name: str = exchange.name
        self.arguments: dict[str, object] = exchange.arguments
        # Names of its streams, in order of their numbers.
        self.partitions: list[str] = exchange.partition_names()


def declarations_of(exchange: PartitionedStreamExchange) -> list[DeclareQueue]:
    arguments: dict[str, object] = {"x-queue-type": "stream"}
    for name in STREAM_ARGUMENTS:
        if name in exchange.arguments:
            arguments[name] = exchange.arguments[name]
    return [
        DeclareQueue(name, durable=True, arguments=arguments) for name in exchange.partition_names()
    ]


def bindings_of(exchange: PartitionedStreamExchange) -> list[BindQueue]:
    return [
        BindQueue(name, exchange.name, str(number))
        for number, name in enumerate(exchange.partition_names())
    ]


def partitions_of(
    exchanges: dict[str, Exchange], command: DeclareExchange | DeleteExchange, creates: bool
) -> list[str]:
    """Names of the streams that come or go with an exchange; whoever asks needs permission for
    them too.
    """
    if isinstance(command, DeleteExchange):
        exchange = exchanges.get(command.name)
        return exchange.partition_names() if isinstance(exchange, PartitionedStreamExchange) else []
    count = command.arguments.get(COUNT_ARGUMENT)
    if not creates or command.kind != KIND or not isinstance(count, int):
        return []
    return [f"{command.name}-{number}" for number in range(min(count, PARTITIONS_MAX))]
