"""What declaring and deleting a partitioned stream means in commands for its partitions."""

from penstock.broker.exchanges.partitioned import STREAM_ARGUMENTS, PartitionedStreamExchange
from penstock.broker.topology import BindQueue, DeclareQueue, DeleteQueue


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


def deletions_of(exchange: PartitionedStreamExchange) -> list[DeleteQueue]:
    return [DeleteQueue(name) for name in exchange.partition_names()]
