"""Names under which one dialect carries what only the other has a place for."""

from typing import Final

from penstock.wire.amqp10.values import Symbol

# Type of an AMQP 0-9-1 message whose body is AMQP 1.0 sections; RabbitMQ's.
ENCODED_TYPE: Final = "amqp-1.0"

# Headers for AMQP 1.0's own.
MESSAGE_ID: Final = "x-message-id"
CORRELATION_ID: Final = "x-correlation-id"
USER_ID: Final = "x-amqp-1.0-user-id"
TO: Final = "x-amqp-1.0-to"
SUBJECT: Final = "x-amqp-1.0-subject"
REPLY_TO: Final = "x-amqp-1.0-reply-to"
CONTENT_TYPE: Final = "x-amqp-1.0-content-type"
CONTENT_ENCODING: Final = "x-amqp-1.0-content-encoding"
ABSOLUTE_EXPIRY_TIME: Final = "x-amqp-1.0-absolute-expiry-time"
CREATION_TIME: Final = "x-amqp-1.0-creation-time"
GROUP_ID: Final = "x-amqp-1.0-group-id"
GROUP_SEQUENCE: Final = "x-amqp-1.0-group-sequence"
REPLY_TO_GROUP_ID: Final = "x-amqp-1.0-reply-to-group-id"
FOOTER_HEADER: Final = "x-amqp-1.0-footer"
# The whole head, for a message that could not be restored from its headers alone.
HEAD_HEADER: Final = "x-amqp-1.0-head"

# Annotations for AMQP 0-9-1's own. RabbitMQ knows those of type and expiration.
TYPE: Final = Symbol("x-basic-type")
EXPIRATION: Final = Symbol("x-basic-expiration")
TIMESTAMP: Final = Symbol("x-basic-timestamp")
BASIC_CONTENT_TYPE: Final = Symbol("x-basic-content-type")
BASIC_CONTENT_ENCODING: Final = Symbol("x-basic-content-encoding")
CLUSTER_ID: Final = Symbol("x-basic-cluster-id")
# Lists and tables, which application properties must not hold, under the header's name.
HEADER_PREFIX: Final = "x-basic-header-"
# All properties as octets, for the same reason as the head above.
PROPERTIES_ANNOTATION: Final = Symbol("x-opt-basic-properties")
