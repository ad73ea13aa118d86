"""A publish that is awaited; it survives a lost connection if it is to be sent again."""

import asyncio
from dataclasses import dataclass

from penstock.client.errors import PublishReturned
from penstock.client.events import Returned
from penstock.wire.amqp091.content import BasicProperties


@dataclass(slots=True, eq=False)
class Publish:
    """The note left with the conversation; `done` resolves when the broker has answered."""

    exchange: str
    routing_key: str
    body: bytes
    properties: BasicProperties | None
    mandatory: bool
    done: asyncio.Future[None]
    returned: PublishReturned | None = None

    def is_the_one(self, returned: Returned) -> bool:
        """Equal messages are interchangeable: whichever of them came back, one of them did."""
        return (
            self.mandatory
            and self.returned is None
            and self.exchange == returned.exchange
            and self.routing_key == returned.routing_key
            and self.body == returned.body
        )

    def settle(self, error: Exception | None) -> None:
        if self.done.done():
            return  # its caller no longer awaits it
        error = error or self.returned
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
