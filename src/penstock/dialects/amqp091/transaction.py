"""tx.select, tx.commit, tx.rollback: publishes and acknowledgements that happen together.

A commit changes queues in one step, so no client sees half of it; see `commit`.
"""

from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.commit import Commit
from penstock.dialects.amqp091.staged import TRANSACTION_BYTES_MAX, Transaction
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.methods_generated import (
    ConfirmSelect,
    ConfirmSelectOk,
    TxRollbackOk,
    TxSelectOk,
)
from penstock.wire.amqp091.reply_codes_generated import PRECONDITION_FAILED


def select_transaction(channel: Channel) -> None:
    if channel.confirms is not None:
        raise ChannelFault(PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        bytes_max = channel.container.transaction_bytes_max
        channel.transaction = Transaction(bytes_max or TRANSACTION_BYTES_MAX)
        channel.choose_publish_path()
    channel.wire.send_method(channel.number, TxSelectOk())


def select_confirms(channel: Channel, method: ConfirmSelect) -> None:
    if channel.transaction is not None:
        raise ChannelFault(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    channel.start_confirms()
    if not method.no_wait:
        channel.wire.send_method(channel.number, ConfirmSelectOk())


def commit(channel: Channel, now: int) -> None:
    """Done at once when it is small; otherwise the connection's turn goes on with it."""
    transaction = _transaction_of(channel)
    commit = Commit(channel, transaction.publishes, transaction.settlements, transaction.octets)
    transaction.clear()
    if commit.prepare(now):
        commit.finish(now)
    else:
        channel.turn.work = commit


def rollback(channel: Channel) -> None:
    _transaction_of(channel).roll_back(channel.container.state.discarded)
    channel.wire.send_method(channel.number, TxRollbackOk())


def _transaction_of(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise ChannelFault(PRECONDITION_FAILED, "channel is not transactional")
    return channel.transaction
