"""What a peer that holds the cluster key cannot have said, if both servers keep the protocol.

A server whose data directory was damaged or restored from a copy, or one of a defective release, may say it
all the same. It is refused before anything has changed: the link ends, both ends have the reason, and this
server goes on with what it has.
"""

from typing import Final

from penstock.cluster.messages import KIND_NAMES, PREVOTE, RECORD, ROOT, ControlMessage
from penstock.cluster.standing import Standing
from penstock.formats.peer_limits import BadPeerMessage

# What only a root sends.
_OF_ROOTS: Final = (ROOT, RECORD)


class Contradiction(BadPeerMessage):
    """Two servers of one cluster disagree about what can be only one thing (I1, I3). The text is short:
    the peer gets it in a short string.
    """


def refuse_foreign(own: Standing, name: str, message: ControlMessage) -> None:
    """Another cluster's messages, and those of servers that were formatted differently."""
    if name == own.own_name:
        raise BadPeerMessage(f"the peer has the name of this server, {name!r}")
    record = message.record
    if record is not None and record.order() == (0, 0) == own.record.order():
        if record != own.record:
            raise BadPeerMessage(
                f"{name!r} was formatted with other members than {own.own_name!r}: format "
                "both with the same key and the same list of members"
            )
    if message.cluster_id == own.record.cluster_id:
        return
    # A new server learns the id of a cluster that was forced to have another one.
    if own.record.epoch == 0 and record is not None and record.epoch > 0:
        return
    if message.kind == PREVOTE and record is not None and record.epoch == 0:
        return
    raise BadPeerMessage(
        f"{name!r} belongs to another cluster than {own.own_name!r}: their cluster ids differ"
    )


def refuse_contradiction(own: Standing, name: str, message: ControlMessage) -> None:
    """A second record of one version (I3), and a second root of one epoch (I1)."""
    record = message.record
    if record is None:
        return
    is_same_cluster = record.cluster_id == own.record.cluster_id
    if record.order() == own.record.order() and is_same_cluster and record != own.record:
        raise Contradiction(
            f"{KIND_NAMES[message.kind]} of {name!r} has another record {record.epoch}.{record.version} "
            f"than {own.own_name!r}; replace the one that differs from the other members"
        )
    if message.kind in _OF_ROOTS and message.epoch == own.epoch:
        if own.root_name not in ("", name):
            raise Contradiction(
                f"{name!r} says that it is the root of epoch {message.epoch}, and for {own.own_name!r} "
                f"that is {own.root_name!r}; replace the one that the other members do not follow"
            )
