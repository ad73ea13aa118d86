"""Every generated composite survives encoding and decoding; the files are fresh."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.octets import Malformed
from penstock.wire.amqp10 import conditions_generated, performatives_generated
from penstock.wire.amqp10.decoding import Reader
from penstock.wire.amqp10.encoding import encode_value
from penstock.wire.amqp10.performatives_generated import (
    NAMES,
    STATES,
    Accepted,
    AmqpValue,
    Attach,
    Error,
    Open,
    Received,
    Rejected,
    Source,
    Target,
    Transfer,
    UnknownComposite,
    composite_of,
    decode_composite,
)
from penstock.wire.amqp10.values import Composite, Described, Symbol, Timestamp, ULong
from tests.wire.amqp10.strategies import ASCII, SCALARS, VALUE, unsigned

ROOT = Path(__file__).resolve().parents[3]
SPEC = tomllib.loads((ROOT / "spec" / "amqp10.toml").read_text(encoding="utf-8"))

ERROR = st.builds(Error, ASCII, st.none() | st.text(max_size=5))
OUTCOME = st.just(Accepted()) | st.builds(Rejected, st.none() | ERROR)
STATE: st.SearchStrategy[Composite] = OUTCOME | st.builds(Received, unsigned(32), unsigned(64))
NAMED = st.dictionaries(ASCII, VALUE, max_size=3)
KINDS: dict[str, st.SearchStrategy[object]] = {
    "boolean": st.booleans(),
    "ubyte": unsigned(8),
    "ushort": unsigned(16),
    "uint": unsigned(32),
    "ulong": unsigned(64),
    "timestamp": SCALARS[0x83],
    "binary": st.binary(max_size=300),
    "string": st.text(max_size=30),
    "symbol": ASCII,
    "symbols": st.lists(ASCII, min_size=1, max_size=3),
    "map": st.dictionaries(SCALARS[0xB3], VALUE, max_size=3),
    "named": NAMED,
    "message-id": st.text(max_size=5) | st.binary(max_size=5) | SCALARS[0x80] | SCALARS[0x98],
    "any": VALUE,
    "error": ERROR,
    "source": st.builds(Source, st.text(max_size=5), filter_=NAMED, default_outcome=OUTCOME),
    "target": st.builds(Target, st.text(max_size=5)),
    "state": STATE,
    "outcome": OUTCOME,
    "unsettled": st.dictionaries(st.binary(max_size=5), st.none() | STATE, max_size=3),
    "list": st.lists(VALUE, max_size=3),
}


def class_of(name: str) -> type[Composite]:
    found: type[Composite] = getattr(
        performatives_generated, "".join(part.capitalize() for part in name.split("-"))
    )
    return found


def read(octets: bytes) -> Composite:
    reader = Reader(octets, 0, len(octets))
    composite = decode_composite(reader)
    assert reader.at == len(octets)
    return composite


COMPOSITES = [
    pytest.param(entry["name"], entry["fields"], id=entry["name"]) for entry in SPEC["composite"]
]


@pytest.mark.parametrize(("name", "fields"), COMPOSITES)
@given(data=st.data())
def test_a_composite_survives_encoding_and_decoding(
    name: str, fields: list[str], data: st.DataObject
) -> None:
    arguments: list[object] = []
    for field in fields:
        kind = field.split()[1].partition("=")[0]
        values = KINDS[kind.removesuffix("!")]
        if not kind.endswith("!") and "=" not in field:
            values = st.none() | values
        arguments.append(data.draw(values))
    composite = class_of(name)(*arguments)
    again = read(composite.encode())
    assert again == composite
    assert [value for _, value in again.shown()] == [value for _, value in composite.shown()]
    assert NAMES[composite.identity()] == composite.wire_name() == name


@pytest.mark.parametrize("entry", SPEC["section"], ids=lambda entry: entry["name"])
@given(data=st.data())
def test_a_section_survives_encoding_and_decoding(
    entry: dict[str, str], data: st.DataObject
) -> None:
    section = class_of(entry["name"])(data.draw(KINDS[entry["type"]]))  # type: ignore[call-arg]
    assert read(section.encode()) == section
    assert section.wire_name() == entry["name"]
    if entry["type"] != "any":
        with pytest.raises(Malformed):
            read(section.encode()[:3] + b"\x43")


@pytest.mark.parametrize(("name", "fields"), COMPOSITES)
def test_the_symbolic_descriptor_is_as_good(name: str, fields: list[str]) -> None:
    composite = class_of(name)()
    for field, (attribute, _) in zip(fields, composite.shown(), strict=True):
        if "symbols!" in field:
            setattr(composite, attribute, ["a"])
    symbol = encode_value(Symbol(f"amqp:{name}:list"))
    assert read(b"\x00" + symbol + composite.encode()[3:]) == composite


@pytest.mark.parametrize(("name", "fields"), COMPOSITES)
def test_fields_that_must_be_there_are_missed(name: str, fields: list[str]) -> None:
    head = class_of(name)().encode()[:3]
    if any("!" in field for field in fields):
        with pytest.raises(Malformed, match="without"):
            read(head + b"\x45")
    else:
        assert read(head + b"\x45") == class_of(name)()


@pytest.mark.parametrize(("name", "fields"), COMPOSITES)
def test_a_field_of_the_wrong_type_is_refused(name: str, fields: list[str]) -> None:
    head = class_of(name)().encode()[:3]
    for index, field in enumerate(fields):
        kind = field.split()[1].partition("=")[0].removesuffix("!")
        if kind == "any":
            continue
        wrong = b"\x51\x01"  # a byte, which no field is
        values = [b"\x40"] * index + [wrong]
        content = bytes((len(values),)) + b"".join(values)
        with pytest.raises(Malformed):
            read(head + b"\xc0" + bytes((len(content),)) + content)


@pytest.mark.parametrize(("name", "fields"), COMPOSITES)
def test_fields_behind_those_we_know_are_skipped(name: str, fields: list[str]) -> None:
    composite = class_of(name)()
    for field, (attribute, _) in zip(fields, composite.shown(), strict=True):
        if "symbols!" in field:
            setattr(composite, attribute, ["a"])
    encoded = composite.encode()
    count = encoded[5] if encoded[3] != 0x45 else 0
    content = encoded[6:] + b"\x40" * (len(fields) - count) + b"\xc0\x03\x02\x41\x41"
    longer = bytes((len(content) + 1, len(fields) + 1)) + content
    assert read(encoded[:3] + b"\xc0" + longer) == composite


@pytest.mark.parametrize(
    "octets",
    [
        "005310c0020140",  # a mandatory field that is null
        "005310c00102",  # a count without values
        "005310c00501a1016100",  # octets behind the fields
        "00531040",  # no list
        "005310c0",
        "0053",
        "40",
        "005310c1010040",
    ],
)
def test_what_is_no_composite_is_refused(octets: str) -> None:
    with pytest.raises(Malformed):
        read(bytes.fromhex(octets))


@pytest.mark.parametrize("descriptor", [ULong(0x7777), Symbol("amqp:open"), "amqp:open:list", 16])
def test_unknown_descriptors_are_refused(descriptor: object) -> None:
    with pytest.raises(UnknownComposite):
        read(encode_value(Described(descriptor, [])))
    assert composite_of(Described(descriptor, [])) is None


def test_one_of_many_symbols_may_stand_alone() -> None:
    alone = Open("c", offered_capabilities=["a"])
    content = bytes.fromhex("08 a10163 40 40 40 40 40 40 a30161")
    assert read(b"\x00\x53\x10\xc0" + bytes((len(content),)) + content) == alone


def test_a_state_that_is_none_is_refused() -> None:
    for state in (Source("x"), AmqpValue(1)):
        transfer = Transfer(0, 0, b"", state=state)
        with pytest.raises(Malformed, match="delivery state"):
            read(transfer.encode())
    for unsettled in ({b"a": Source("x")}, {b"a": 1}, {"a": None}, {b"a": Described(1, 2)}):
        plain = Attach("a").encode()
        assert read(plain) == Attach("a")
        broken = Attach("a")
        broken.unsettled = {}
        octets = broken.encode().replace(b"\xc1\x01\x00", encode_value(unsettled))
        octets = octets[:4] + bytes((len(octets) - 5,)) + octets[5:]
        with pytest.raises(Malformed):
            read(octets)


def test_lifetime_policies_are_composites_in_maps() -> None:
    source = Source(dynamic=True, dynamic_node_properties={"lifetime-policy": Accepted()})
    again = read(source.encode())
    assert isinstance(again, Source)
    assert again.dynamic_node_properties is not None
    policy = again.dynamic_node_properties["lifetime-policy"]
    assert isinstance(policy, Described)
    assert composite_of(policy) == Accepted()


def test_composites_tell_what_they_are() -> None:
    assert repr(Accepted()) == "<accepted>"
    assert repr(Error("amqp:x")) == "<error condition='amqp:x'>"
    assert len({Accepted(), Accepted()}) == 1
    assert {0x23, 0x24, 0x25, 0x26, 0x27, 0x33, 0x34} == STATES
    assert Timestamp(1) == 1


def test_conditions_are_those_of_the_specification() -> None:
    named = [f"{level}:{name}" for level, names in SPEC["conditions"].items() for name in names]
    assert frozenset(named) == conditions_generated.CONDITIONS
    assert conditions_generated.LINK_STOLEN == "amqp:link:stolen"
    assert conditions_generated.CONNECTION_REDIRECT == "amqp:connection:redirect"


def test_the_generated_files_are_fresh() -> None:
    script = ROOT / "tools" / "generate_amqp10.py"
    result = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout
