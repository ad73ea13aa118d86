"""Every generated method survives encoding and decoding; the files are fresh."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.octets import Malformed
from penstock.wire.amqp091 import methods_generated
from penstock.wire.amqp091.methods_generated import (
    ANSWERS,
    NAMES,
    SENT_BY_CLIENT,
    SENT_BY_PEER,
    SENT_BY_SERVER,
    WITH_CONTENT,
    BasicPublish,
    Method,
    QueueDeclare,
    TxSelect,
    UnknownMethod,
    decode_method,
)
from penstock.wire.amqp091.reply_codes_generated import CONNECTION_LEVEL, REPLY_NAMES

ROOT = Path(__file__).resolve().parents[3]
SPEC = tomllib.loads((ROOT / "spec" / "amqp091.toml").read_text(encoding="utf-8"))

FIELD_VALUES: dict[str, st.SearchStrategy[object]] = {
    "bit": st.booleans(),
    "octet": st.integers(0, 0xFF),
    "short": st.integers(0, 0xFFFF),
    "long": st.integers(0, 0xFFFF_FFFF),
    "longlong": st.integers(0, (1 << 64) - 1),
    "shortstr": st.text(max_size=63),
    "longstr": st.binary(max_size=300),
    "table": st.dictionaries(st.text(max_size=9), st.booleans() | st.text(), max_size=3),
}


def class_of(class_name: str, method_name: str) -> type[Method]:
    parts = [class_name, *method_name.split("-")]
    found: type[Method] = getattr(methods_generated, "".join(part.capitalize() for part in parts))
    return found


METHODS = [
    pytest.param(class_of(entry["name"], method["name"]), method["fields"], id=method["name"])
    for entry in SPEC["class"]
    for method in entry["methods"]
]


@pytest.mark.parametrize(("method_class", "fields"), METHODS)
@given(data=st.data())
def test_a_method_survives_encoding_and_decoding(
    method_class: type[Method], fields: list[str], data: st.DataObject
) -> None:
    kinds = [field.split()[1] for field in fields if not field.startswith("reserved-")]
    arguments = [data.draw(FIELD_VALUES[kind]) for kind in kinds]
    method = method_class(*arguments)
    payload = method.encode()
    decoded = decode_method(payload)
    assert type(decoded) is method_class
    assert [value for _, value in decoded.described()] == arguments
    assert decoded == method
    assert decoded.identity() == method_class.CLASS_ID << 16 | method_class.METHOD_ID
    assert NAMES[decoded.identity()] == method_class.NAME
    assert method_class.NAME in repr(decoded)
    cut = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(Malformed):
        decode_method(payload[:cut])
    with pytest.raises(Malformed, match="1 octets after"):
        decode_method(payload + b"\x00")


@given(st.sampled_from(sorted(NAMES)), st.binary(max_size=80))
def test_any_octets_give_a_method_or_a_typed_error(identity: int, octets: bytes) -> None:
    try:
        method = decode_method(identity.to_bytes(4, "big") + octets)
    except Malformed:
        return
    assert method.identity() == identity


def test_bits_share_an_octet_from_the_lowest_up() -> None:
    payload = QueueDeclare("q", durable=True, no_wait=True).encode()
    assert payload == b"\x00\x32\x00\x0a\x00\x00\x01q\x12\x00\x00\x00\x00"


def test_unknown_ids_are_refused() -> None:
    with pytest.raises(UnknownMethod, match="class 60 has no method 12"):
        decode_method(b"\x00\x3c\x00\x0c")


def test_methods_compare_by_what_they_say() -> None:
    assert BasicPublish("a", "b") == BasicPublish("a", "b")
    assert BasicPublish("a", "b") != BasicPublish("a", "c")
    assert len({TxSelect(), TxSelect()}) == 1
    assert repr(TxSelect()) == "<tx.select>"


def test_arguments_of_two_methods_are_not_shared() -> None:
    first = QueueDeclare("a")
    first.arguments["x"] = 1
    assert QueueDeclare("b").arguments == {}


def test_every_method_has_a_sender_and_answers_go_the_other_way() -> None:
    assert set(NAMES) == SENT_BY_CLIENT | SENT_BY_SERVER | SENT_BY_PEER
    assert SENT_BY_PEER.isdisjoint(SENT_BY_CLIENT | SENT_BY_SERVER)
    for asked, answers in ANSWERS.items():
        for answer in answers:
            assert answer >> 16 == asked >> 16
            if asked in SENT_BY_PEER:
                assert answer in SENT_BY_PEER
            elif asked in SENT_BY_CLIENT:
                assert answer in SENT_BY_SERVER
            else:
                assert answer in SENT_BY_CLIENT
    assert {NAMES[identity] for identity in WITH_CONTENT} == {
        "basic.publish",
        "basic.return",
        "basic.deliver",
        "basic.get-ok",
        "cluster.control",
        "cluster.stream",
    }


def test_reply_codes_know_their_level() -> None:
    assert {404, 405, 406, 403, 311}.isdisjoint(CONNECTION_LEVEL)
    assert {320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541} == CONNECTION_LEVEL
    assert REPLY_NAMES[404] == "NOT_FOUND"


def test_the_generated_files_are_fresh() -> None:
    checked = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "generate_amqp091.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
