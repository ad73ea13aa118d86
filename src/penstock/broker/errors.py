"""What the broker refuses, by kind. A dialect turns a kind into its reply code or condition.

Texts follow RabbitMQ's, because clients and people search for them.
"""


class Refusal(Exception):
    """Something a client asked for cannot be done; nothing was changed."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text: str = text


class NotFound(Refusal):
    """The object named does not exist."""


class PreconditionFailed(Refusal):
    """The object is not in the state, or an argument not of the form, that the request needs."""


class AccessRefused(Refusal):
    """This user, or anybody, may not do this to that object."""


class ResourceLocked(Refusal):
    """An exclusive queue of another connection."""


class NotAllowed(Refusal):
    """The server will not do it, whoever asks; AMQP 0-9-1 closes the connection for it."""


class CommandInvalid(Refusal):
    """The request names something that cannot exist, such as an unknown exchange type."""


class NotImplementedHere(Refusal):
    """The protocol defines it, but this server does not implement it."""


class ResourceError(Refusal):
    """A named limit was reached."""


class NotRoot(Refusal):
    """Another server of the cluster decides, or none does at the moment."""
