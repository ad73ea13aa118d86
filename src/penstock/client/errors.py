"""What can go wrong for a client, with the broker's reply code and text where it gave one."""

from typing import Final

ACCESS_REFUSED: Final = 403

# AMQP has no code for a lost connection; 0 means that the broker gave no reason.
NO_REPLY_CODE: Final = 0


class ClientError(Exception):
    """Everything this room raises."""


class UriInvalid(ClientError):
    """The address cannot be read; the text says which part."""


class ReplyError(ClientError):
    """The peer closed something, or the connection was lost; code and text are the peer's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}" if code else text)
        self.code: int = code
        self.text: str = text


class ChannelClosedError(ReplyError):
    """One channel ended; the connection and its other channels are not affected."""


class ConnectionClosedError(ReplyError):
    """The connection ended: closed by a side, lost, or without heartbeats."""


class LoginRefused(ConnectionClosedError):
    """The broker did not accept user, password or virtual host."""


class ConnectFailed(ClientError):
    """No address could be reached; `attempts` holds what was tried and what each one answered."""

    def __init__(self, attempts: list[tuple[str, str]]) -> None:
        self.attempts: list[tuple[str, str]] = attempts
        tried = "; ".join(f"{address}: {reason}" for address, reason in attempts)
        super().__init__(f"cannot connect to a broker ({tried})")


class TimedOut(ClientError):
    """The broker did not answer within the time given; the connection's state is unknown."""


class PublishRefused(ClientError):
    """The broker answered basic.nack: it did not take responsibility for `count` messages."""

    def __init__(self, count: int) -> None:
        super().__init__(f"the broker refused {count} published message(s)")
        self.count: int = count


class PublishReturned(ReplyError):
    """A mandatory message reached no queue and came back."""


class PublishInDoubt(ReplyError):
    """The connection was lost before the confirm: the message may or may not have arrived."""


class TransactionAborted(ReplyError):
    """The connection was lost before the commit was sent: nothing of the transaction was done."""


class TransactionUnknown(ReplyError):
    """The connection was lost before the commit was answered: all of the transaction was done, or
    nothing.
    """


class ConsumerCancelledError(ClientError):
    """The broker ended the consumer, usually because its queue was deleted."""
