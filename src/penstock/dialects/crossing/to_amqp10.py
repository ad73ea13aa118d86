"""AMQP 0-9-1's properties and headers as AMQP 1.0's header, annotations, properties, application
properties. `docs/design/translation.md` has the table.

Headers whose name begins with `x-` become annotations, the others application properties; values
that neither can hold are left out, and `translate` keeps them in another way.
"""

from typing import Final

from penstock.broker.message import NO_EXPIRATION
from penstock.dialects.amqp10.messages.deaths import DEATHS, DEATHS_ANNOTATION, deaths_array
from penstock.dialects.amqp10.messages.message_head import check_body, section_code
from penstock.dialects.amqp10.messages.neutral_values import uuid_of_text
from penstock.dialects.amqp10.messages.properties import COPIES, COPIES_ANNOTATION
from penstock.dialects.crossing import labels
from penstock.dialects.crossing.parts import BareParts, BasicParts
from penstock.dialects.crossing.reply_address import address_of_queue
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.content import PERSISTENT, BasicProperties
from penstock.wire.amqp10.performatives_generated import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    FOOTER,
)
from penstock.wire.amqp10.performatives_generated import Properties as PropertiesSection
from penstock.wire.amqp10.values import Symbol, UInt, ULong

_UINT_MAX: Final = 2**32 - 1
_INT64_MAX: Final = 2**63 - 1
_EMPTY_DATA: Final = b"\x00\x53\x75\xa0\x00"


def bare_parts_of(parts: BasicParts, body_is_encoded: bool) -> BareParts:
    bare = BareParts()
    basic = parts.basic
    if basic.delivery_mode is not None:
        bare.durable = basic.delivery_mode == PERSISTENT
    bare.priority = basic.priority
    # AMQP 0-9-1 has no such field: no consumer had the message before it came here.
    bare.first_acquirer = True
    _put_expiration(bare, basic.expiration)
    _put_identities(bare.section, basic)
    _put_content(bare, basic)
    if basic.type_ is not None and not body_is_encoded:
        bare.annotations[labels.TYPE] = basic.type_
    if basic.cluster_id is not None:
        bare.annotations[labels.CLUSTER_ID] = basic.cluster_id
    if parts.headers is not None:
        if not parts.headers:
            bare.application = {}
        for name, value in parts.headers.items():
            if not _promoted(bare, basic, name, value, body_is_encoded):
                _put_header(bare, name, value)
    return bare


def is_encoded(kind: str | None, body: bytes) -> bool:
    """Whether a body is AMQP 1.0 sections other than data, according to its type."""
    if kind != labels.ENCODED_TYPE:
        return False
    try:
        check_body(body, 0)
        return section_code(body, 0) in {AMQP_SEQUENCE, AMQP_VALUE}
    except Malformed:
        return False


def is_footer(value: object) -> bool:
    if not isinstance(value, bytes) or not value:
        return False
    try:
        if section_code(value, 0) != FOOTER:
            return False
        check_body(_EMPTY_DATA + value, 0)
    except Malformed:
        return False
    return True


def _put_expiration(bare: BareParts, expiration: str | None) -> None:
    if expiration is None:
        return
    lifetime = NO_EXPIRATION
    # 10 digits are what 32 bits have.
    if len(expiration) <= 10 and expiration.isascii() and expiration.isdigit():
        lifetime = int(expiration)
    if 0 <= lifetime <= _UINT_MAX and str(lifetime) == expiration:
        bare.lifetime = lifetime
    else:
        bare.annotations[labels.EXPIRATION] = expiration


def _put_identities(section: PropertiesSection, basic: BasicProperties) -> None:
    if basic.message_id is not None:
        section.message_id = uuid_of_text(basic.message_id) or basic.message_id
    if basic.correlation_id is not None:
        section.correlation_id = uuid_of_text(basic.correlation_id) or basic.correlation_id
    if basic.user_id is not None:
        section.user_id = basic.user_id.encode("utf-8")
    if basic.reply_to is not None:
        section.reply_to = address_of_queue(basic.reply_to)
    section.group_id = basic.app_id


def _put_content(bare: BareParts, basic: BasicProperties) -> None:
    section = bare.section
    if basic.content_type is not None:
        if basic.content_type.isascii():
            section.content_type = basic.content_type
        else:
            bare.annotations[labels.BASIC_CONTENT_TYPE] = basic.content_type
    if basic.content_encoding is not None:
        if basic.content_encoding.isascii():
            section.content_encoding = basic.content_encoding
        else:
            bare.annotations[labels.BASIC_CONTENT_ENCODING] = basic.content_encoding
    if basic.timestamp is not None:
        if basic.timestamp * 1000 <= _INT64_MAX:
            section.creation_time = basic.timestamp * 1000
        else:
            bare.annotations[labels.TIMESTAMP] = ULong(basic.timestamp)


def _promoted(
    bare: BareParts, basic: BasicProperties, name: str, value: object, body_is_encoded: bool
) -> bool:
    """Whether a header was what an AMQP 1.0 property had become."""
    if not name.startswith("x-amqp-1.0-"):
        return False
    if name == labels.FOOTER_HEADER:
        if body_is_encoded or not is_footer(value):
            return False
        assert isinstance(value, bytes), "so it is a footer"
        bare.footer = value
        return True
    if name == labels.USER_ID:
        if not isinstance(value, bytes) or basic.user_id is not None:
            return False
        bare.section.user_id = value
        return True
    if isinstance(value, str):
        return _promoted_text(bare.section, name, str(value))
    return _promoted_number(bare.section, name, value)


def _promoted_text(section: PropertiesSection, name: str, text: str) -> bool:
    if name == labels.TO:
        section.to = text
    elif name == labels.SUBJECT:
        section.subject = text
    elif name == labels.REPLY_TO_GROUP_ID:
        section.reply_to_group_id = text
    elif name == labels.GROUP_ID and section.group_id is None:
        section.group_id = text
    elif name == labels.REPLY_TO and section.reply_to is None:
        section.reply_to = text
    elif name == labels.CONTENT_TYPE and section.content_type is None and text.isascii():
        section.content_type = text
    elif name == labels.CONTENT_ENCODING and section.content_encoding is None and text.isascii():
        section.content_encoding = text
    else:
        return False
    return True


def _promoted_number(section: PropertiesSection, name: str, value: object) -> bool:
    if name == labels.GROUP_SEQUENCE and isinstance(value, UInt):
        section.group_sequence = int(value)
        return True
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    if not -_INT64_MAX <= value <= _INT64_MAX:
        return False
    if name == labels.ABSOLUTE_EXPIRY_TIME:
        section.absolute_expiry_time = int(value)
        return True
    if name == labels.CREATION_TIME:
        # Only beside a timestamp of the same second: a different one was set on purpose.
        created = section.creation_time
        if created is None and value >= 0:
            return False
        if created is not None and created // 1000 != value // 1000:
            return False
        section.creation_time = int(value)
        return True
    return False


def _put_header(bare: BareParts, name: str, value: object) -> None:
    if name == COPIES and is_texts(value):
        bare.annotations[COPIES_ANNOTATION] = value
    elif name.startswith("x-"):
        _put_annotation(bare, name, value)
    elif isinstance(value, (list, dict)):
        if name.isascii():
            bare.annotations[Symbol(labels.HEADER_PREFIX + name)] = value
    elif _is_text(name):
        application = bare.application
        if application is None:
            application = {}
            bare.application = application
        application[name] = value


def _put_annotation(bare: BareParts, name: str, value: object) -> None:
    if name == labels.PROPERTIES_ANNOTATION or not name.isascii():
        return
    if name == DEATHS:
        deaths = deaths_array(value)
        if deaths is not None:
            bare.annotations[DEATHS_ANNOTATION] = deaths
            return
    bare.annotations[Symbol(name)] = value


def is_texts(value: object) -> bool:
    """Whether it is a list of nothing but texts, as routing keys are."""
    return isinstance(value, list) and all([isinstance(item, str) for item in value])


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
