"""What a replica follows: a queue of another server, or of a cluster, outside of any cluster here.

It is kept as a parameter of the virtual host under the name of the queue, so that it is journalled and
stands in definitions as other parameters do:

    component "queue-replica", name of the queue, {"uri": ..., "queue": ..., "incarnation": ...}

The parameter is there exactly while the queue is a replica. It is set before the queue is declared,
removed to release it, and goes with the queue.
"""

from dataclasses import dataclass
from typing import Final

from penstock.broker.errors import PreconditionFailed

REPLICA_COMPONENT: Final = "queue-replica"
URI: Final = "uri"
QUEUE: Final = "queue"
INCARNATION: Final = "incarnation"


@dataclass(frozen=True, slots=True)
class Following:
    """Held by the queue that is a replica."""

    # Where the source is reached; it may contain a password.
    uri: str
    # The name of the queue there.
    queue: str
    # Which queue of that name it is, as the source says; empty before it was reached once.
    incarnation: str = ""

    def source(self) -> str:
        """For people: without the password."""
        scheme, separator, rest = self.uri.partition("://")
        return f"queue '{self.queue}' at {scheme}{separator}{rest.rpartition('@')[2]}"

    def value(self) -> dict[str, object]:
        """As a parameter."""
        told: dict[str, object] = {URI: self.uri, QUEUE: self.queue}
        if self.incarnation:
            told[INCARNATION] = self.incarnation
        return told


def following_of(name: str, value: object) -> Following:
    """What a parameter says of the queue of this name. Raises `PreconditionFailed`."""
    what = f"the value of a parameter of component '{REPLICA_COMPONENT}'"
    if not isinstance(value, dict):
        raise PreconditionFailed(f"{what} must be an object")
    for key, said in value.items():
        if key not in {URI, QUEUE, INCARNATION}:
            raise PreconditionFailed(f"{what} has the unknown key '{key}'")
        if not isinstance(said, str):
            raise PreconditionFailed(f"{what} must have a text as '{key}'")
    uri = value.get(URI, "")
    if not uri.startswith(("amqp://", "amqps://")):
        raise PreconditionFailed(f"{what} must have an amqp:// or amqps:// address as '{URI}'")
    return Following(uri, value.get(QUEUE, "") or name, value.get(INCARNATION, ""))


def check_following(what: str, following: Following, known: Following | None) -> None:
    """Whether a queue that exists may follow this; `known` is what it follows. `what` reads
    "queue 'q' in vhost '/'". Raises `PreconditionFailed`.
    """
    if known is None:
        raise PreconditionFailed(
            f"{what} exists and is not a replica. Delete it, or give the replica another name"
        )
    if (known.uri, known.queue) != (following.uri, following.queue):
        raise PreconditionFailed(
            f"{what} is a replica of {known.source()}. Release it before it follows another queue"
        )
