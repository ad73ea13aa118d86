"""tx.select, tx.commit, tx.rollback: publishes and acknowledgements that happen together.

On one server a commit is one synchronous step, so nobody sees half of it.
"""

from penstock.dialects.amqp091.acknowledge import settle
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.publish import route_and_enqueue
from penstock.dialects.amqp091.staged import Transaction
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.methods_generated import (
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommitOk,
    TxRollbackOk,
    TxSelectOk,
)
from penstock.wire.amqp091.reply_codes_generated import PRECONDITION_FAILED


def select_transaction(channel: Channel) -> None:
    if channel.confirms is not None:
        raise ChannelFault(PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
        channel.update_is_plain()
    channel.wire.send_method(channel.number, TxSelectOk())


def select_confirms(channel: Channel, method: ConfirmSelect) -> None:
    if channel.transaction is not None:
        raise ChannelFault(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    channel.start_confirms()
    if not method.no_wait:
        channel.wire.send_method(channel.number, ConfirmSelectOk())


def commit(channel: Channel, now: int) -> None:
    transaction = _transaction_of(channel)
    publishes = transaction.publishes
    settlements = transaction.settlements
    transaction.clear()
    accepted = True
    for staged in publishes:
        staged.message.through_journal = True
        if not route_and_enqueue(channel, staged.target, staged.message, now):
            accepted = False
    for settlement in settlements:
        settle(channel.deliveries, settlement.tag, settlement.multiple, settlement.outcome, now)
    if not accepted:
        raise ChannelFault(PRECONDITION_FAILED, "partial tx completion: a queue refused a message")
    channel.wire.send_method(channel.number, TxCommitOk())
    channel.container.gate(channel.wire.outgoing)


def rollback(channel: Channel) -> None:
    _transaction_of(channel).clear()
    channel.wire.send_method(channel.number, TxRollbackOk())


def _transaction_of(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise ChannelFault(PRECONDITION_FAILED, "channel is not transactional")
    return channel.transaction
