"""AMQP 1.0's header, annotations, properties and application properties as AMQP 0-9-1's properties
and headers. `docs/design/translation.md` has the table.

What has no property, or is too long for one, becomes a header. Annotations that do not begin with
`x-` and names that no table can hold are left out; `translate` keeps them in another way.
"""

from typing import Final

from penstock.broker.message import NO_EXPIRATION
from penstock.dialects.amqp091.properties import BLIND_CARBON_COPY, EXPIRATION_MS_MAX
from penstock.dialects.amqp10.messages.deaths import DEATHS, DEATHS_ANNOTATION, deaths_of
from penstock.dialects.amqp10.messages.neutral_values import (
    plain_text,
    text_of_identifier,
)
from penstock.dialects.amqp10.messages.properties import (
    COPIES,
    COPIES_ANNOTATION,
    EXCHANGE_ANNOTATION,
    KEY_ANNOTATION,
)
from penstock.dialects.crossing import labels
from penstock.dialects.crossing.parts import BareParts, BasicParts
from penstock.dialects.crossing.reply_address import queue_of_address
from penstock.dialects.crossing.to_amqp10 import is_texts
from penstock.formats.octets import SHORT_STRING_BYTES_MAX
from penstock.wire.amqp091.content import PERSISTENT, BasicProperties
from penstock.wire.amqp10.performatives_generated import Properties as PropertiesSection
from penstock.wire.amqp10.values import UInt, ULong

_TRANSIENT: Final = 1
# An expiration is at most 13 digits; a sign or zeros in front are allowed.
_EXPIRATION_LENGTH_MAX: Final = 32
# Set anew with every delivery, or never by an annotation.
_OWN: Final = frozenset({str(EXCHANGE_ANNOTATION), str(KEY_ANNOTATION), labels.HEAD_HEADER})


def basic_parts_of(bare: BareParts, body_is_encoded: bool) -> BasicParts:
    basic = BasicProperties()
    headers: dict[str, object] = {}
    if bare.durable is not None:
        basic.delivery_mode = PERSISTENT if bare.durable else _TRANSIENT
    basic.priority = bare.priority
    if bare.lifetime != NO_EXPIRATION:
        basic.expiration = str(bare.lifetime)
    for key, value in (bare.application or {}).items():
        if isinstance(key, str):
            _put_application(headers, plain_text(key), value)
    for key, value in bare.annotations.items():
        if isinstance(key, str) and key.startswith("x-"):
            _put_annotation(basic, headers, plain_text(key), value)
    _put_identities(basic, headers, bare.section)
    _put_content(basic, headers, bare.section)
    _put_rest(headers, bare.section)
    if bare.footer:
        headers[labels.FOOTER_HEADER] = bare.footer
    if body_is_encoded:
        basic.type_ = labels.ENCODED_TYPE
    return BasicParts(basic, None if not headers and bare.application is None else headers)


def _put_application(headers: dict[str, object], name: str, value: object) -> None:
    # These two names say where a message goes; AMQP 1.0 says that with an annotation.
    if name not in {COPIES, BLIND_CARBON_COPY, labels.HEAD_HEADER} and _is_short(name):
        headers[name] = value


def _put_annotation(
    basic: BasicProperties, headers: dict[str, object], name: str, value: object
) -> None:
    if name in _OWN:
        return
    if name.startswith("x-basic-") and _put_basic(basic, headers, name, value):
        return
    if name == COPIES_ANNOTATION and is_texts(value):
        headers[COPIES] = value
        return
    if name == DEATHS_ANNOTATION:
        deaths = deaths_of(value)
        if deaths is not None:
            headers[DEATHS] = deaths
            return
    if _is_short(name):
        headers[name] = value


def _put_basic(
    basic: BasicProperties, headers: dict[str, object], name: str, value: object
) -> bool:
    """Whether an annotation was what a property or header of AMQP 0-9-1 had become."""
    if name.startswith(labels.HEADER_PREFIX):
        header = name[len(labels.HEADER_PREFIX) :]
        if header.startswith("x-") or header in {COPIES, BLIND_CARBON_COPY} or header in headers:
            return False
        if isinstance(value, (list, dict)):
            headers[header] = value
            return True
        return False
    if name == labels.TIMESTAMP and isinstance(value, ULong):
        basic.timestamp = int(value)
        return True
    text = plain_text(value) if isinstance(value, str) else None
    if text is None or not _is_short(text):
        return False
    if name == labels.TYPE:
        basic.type_ = text
    elif name == labels.CLUSTER_ID:
        basic.cluster_id = text
    elif name == labels.BASIC_CONTENT_TYPE:
        basic.content_type = text
    elif name == labels.BASIC_CONTENT_ENCODING:
        basic.content_encoding = text
    elif name == labels.EXPIRATION and basic.expiration is None and _is_expiration(text):
        basic.expiration = text
    else:
        return False
    return True


def _is_expiration(text: str) -> bool:
    digits = text.removeprefix("+")
    if not digits.isascii() or not digits.isdigit() or len(digits) > _EXPIRATION_LENGTH_MAX:
        return False
    return int(digits) <= EXPIRATION_MS_MAX


def _put_identities(
    basic: BasicProperties, headers: dict[str, object], section: PropertiesSection
) -> None:
    basic.message_id = _identifier(headers, labels.MESSAGE_ID, section.message_id)
    basic.correlation_id = _identifier(headers, labels.CORRELATION_ID, section.correlation_id)
    user_id = section.user_id
    if user_id is not None:
        try:
            basic.user_id = _short_or_header(headers, labels.USER_ID, user_id.decode("utf-8"))
        except UnicodeDecodeError:
            basic.user_id = None
        if basic.user_id is None:
            headers[labels.USER_ID] = user_id
    if isinstance(section.reply_to, str):
        address = plain_text(section.reply_to)
        queue = queue_of_address(address)
        if _is_short(queue):
            basic.reply_to = queue
        else:
            headers[labels.REPLY_TO] = address
    basic.app_id = _short_or_header(headers, labels.GROUP_ID, section.group_id)


def _identifier(headers: dict[str, object], name: str, value: object) -> str | None:
    """As RabbitMQ: an uuid and a number as text; octets and what is too long as a header."""
    if value is None:
        return None
    if isinstance(value, bytes):
        headers[name] = value
        return None
    return _short_or_header(headers, name, text_of_identifier(value))


def _put_content(
    basic: BasicProperties, headers: dict[str, object], section: PropertiesSection
) -> None:
    kind = _short_or_header(headers, labels.CONTENT_TYPE, section.content_type)
    if kind is not None:
        basic.content_type = kind
    encoding = _short_or_header(headers, labels.CONTENT_ENCODING, section.content_encoding)
    if encoding is not None:
        basic.content_encoding = encoding
    created = section.creation_time
    if created is not None:
        if created >= 0:
            basic.timestamp = created // 1000
        if created < 0 or created % 1000:
            headers[labels.CREATION_TIME] = int(created)


def _put_rest(headers: dict[str, object], section: PropertiesSection) -> None:
    if isinstance(section.to, str):
        headers[labels.TO] = plain_text(section.to)
    if section.subject is not None:
        headers[labels.SUBJECT] = section.subject
    if section.absolute_expiry_time is not None:
        headers[labels.ABSOLUTE_EXPIRY_TIME] = int(section.absolute_expiry_time)
    if section.group_sequence is not None:
        headers[labels.GROUP_SEQUENCE] = UInt(section.group_sequence)
    if section.reply_to_group_id is not None:
        headers[labels.REPLY_TO_GROUP_ID] = section.reply_to_group_id


def _short_or_header(headers: dict[str, object], name: str, text: str | None) -> str | None:
    if text is None or _is_short(text):
        return text
    headers[name] = text
    return None


def _is_short(text: str) -> bool:
    return len(text.encode("utf-8", "surrogateescape")) <= SHORT_STRING_BYTES_MAX
