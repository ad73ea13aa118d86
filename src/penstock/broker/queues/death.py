"""Why a message left its queue without being acknowledged."""

from enum import Enum


class DeathReason(Enum):
    """The value is what goes into `x-death`."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAX_LENGTH = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"
