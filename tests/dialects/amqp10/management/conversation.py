"""A client of the management node without links: requests as octets, responses read back."""

from penstock.broker.access.permissions import Access
from penstock.broker.access.topic_permissions import TopicAccessTable
from penstock.broker.shared_services import SharedServices
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp10.management.answering import answer
from penstock.dialects.amqp10.management.messages import encode_response, read_request
from penstock.dialects.principal import Principal
from penstock.wire.amqp10.performatives_generated import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    PROPERTIES,
    AmqpValue,
    ApplicationProperties,
)
from penstock.wire.amqp10.performatives_generated import Properties as WireProperties
from penstock.wire.amqp10.sections import Sections

NODE = "penstock@here"
Answer = tuple[int, object]


class Conversation:
    """One connection of one user."""

    def __init__(
        self, vhost: VirtualHost | None = None, connection: int = 1, configure: str = ".*"
    ) -> None:
        self.vhost = vhost or VirtualHost("/", SharedServices())
        access = Access("ada", "/")
        access.grant(configure, ".*", ".*")
        self.principal = Principal("ada", self.vhost, access, TopicAccessTable())
        self.connection = connection

    def ask(self, method: str, to: str, body: object = None) -> Answer:
        return self.send(request_octets(method, to, body))

    def send(self, payload: bytes) -> Answer:
        status, value, _ = self.exchange(payload)
        return status, value

    def exchange(self, payload: bytes) -> tuple[int, object, object]:
        """Status, body and correlation-id."""
        request = read_request(payload)
        response = answer(request, self.principal, self.connection, NODE, None, 0)
        head, body = encode_response(request, response)
        sections = Sections(head + body)
        properties = sections.decode(PROPERTIES)
        value = sections.decode(AMQP_VALUE)
        assert isinstance(properties, WireProperties)
        assert isinstance(value, AmqpValue)
        assert properties.subject is not None
        assert sections.decode(APPLICATION_PROPERTIES) == ApplicationProperties(
            {"http:response": "1.1"}
        )
        return int(properties.subject), value.value, properties.correlation_id


def request_octets(
    method: str, to: str, body: object = None, message_id: object = "m1", reply_to: str = "$me"
) -> bytes:
    """As the Java and Go clients write it: a body of null is there."""
    properties = WireProperties(message_id, None, to, method, reply_to)
    return properties.encode() + AmqpValue(body).encode()
