"""Making a message of one dialect readable in the other; `translate` does it.

A message stays as it was published for as long as it waits. Whoever delivers it asks for it in its
own dialect, and gets the very same object when it is.
"""

from mypy_extensions import mypyc_attr

from penstock.broker.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Translator:
    """Held by the container and by every consumer."""

    def for_amqp091(self, message: Message) -> Message:
        """The message with properties of the AMQP 0-9-1 dialect and its body as octets."""
        return message

    def for_amqp10(self, message: Message) -> Message:
        """The message with properties of the AMQP 1.0 dialect and its body as sections."""
        return message
