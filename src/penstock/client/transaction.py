"""What became of a channel's transaction when its connection was lost.

A transaction whose commit was not sent is aborted: the broker drops it with the channel. One whose commit
was sent and not answered may have been committed or not, and nobody can tell: the caller must find
out by itself, or repeat what can be repeated.
"""

from penstock.client.errors import ReplyError, TransactionAborted, TransactionUnknown
from penstock.wire.amqp091 import methods_generated as m


class ClientTransaction:
    """Held by a channel of a conversation, from tx.select on."""

    def __init__(self) -> None:
        # Whether something was published or settled since the last commit or rollback.
        self.has_work: bool = False
        # Commits that were sent and not answered.
        self._commits: int = 0

    def called(self, method: m.Method) -> None:
        if isinstance(method, m.TxCommit):
            self._commits += 1
            self.has_work = False
        elif isinstance(method, m.TxRollback):
            self.has_work = False

    def answered(self, method: m.Method) -> None:
        if isinstance(method, m.TxCommitOk):
            self._commits -= 1

    def error(self, cause: ReplyError) -> ReplyError | None:
        """What its caller is told when the connection is lost; None when nothing was open."""
        if self._commits:
            return TransactionUnknown(
                cause.code,
                "the connection was lost before the commit was answered, so the transaction may have "
                f"been committed or not: {cause}",
            )
        if self.has_work:
            return TransactionAborted(
                cause.code,
                f"the connection was lost, and with it what was not committed: {cause}",
            )
        return None
