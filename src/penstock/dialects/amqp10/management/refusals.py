"""Which status a refusal is answered with.

Statuses and texts are RabbitMQ's. Where RabbitMQ would end the session (no permission, a location
or method it does not know, a body of another type) a status is answered instead: other requests
may be under way on the same link.
"""

from typing import Final

from penstock.broker.errors import AccessRefused, PreconditionFailed, Refusal

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
NOT_ALLOWED: Final = 405
CONFLICT: Final = 409


class RequestRefusal(Refusal):
    """A request that is refused before the broker is asked, with its status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status: int = status


def bad_request(text: str) -> RequestRefusal:
    return RequestRefusal(BAD_REQUEST, text)


def status_of(refusal: Refusal, declares: bool) -> int:
    """`declares`: the request was a PUT, where a failed precondition is a conflict with what is
    there. Elsewhere RabbitMQ answers 400 for everything that its channel would refuse, even a
    missing queue.
    """
    if isinstance(refusal, RequestRefusal):
        return refusal.status
    if isinstance(refusal, AccessRefused):
        return FORBIDDEN
    if declares and isinstance(refusal, PreconditionFailed):
        return CONFLICT
    return BAD_REQUEST
