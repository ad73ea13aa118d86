"""Write src/penstock/wire/amqp10/*_generated.py from spec/amqp10.toml.

`python tools/generate_amqp10.py` writes, `--check` only says whether the files are fresh.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from generating import (
    WIRE,
    class_name,
    constant_name,
    constants_module,
    pairs_lines,
    python_name,
    read_spec,
    set_lines,
    write_or_check,
)

if TYPE_CHECKING:
    from pathlib import Path

TARGET: Final = WIRE / "amqp10"

# Type of a field that may be absent.
OPTIONAL_TYPES: Final = {
    "boolean": "bool | None",
    "ubyte": "int | None",
    "ushort": "int | None",
    "uint": "int | None",
    "ulong": "int | None",
    "timestamp": "int | None",
    "binary": "bytes | None",
    "string": "str | None",
    "symbol": "str | None",
    "symbols": "list[str]",
    "map": "dict[object, object] | None",
    "named": "dict[str, object] | None",
    "message-id": "object",
    "any": "object",
    "error": '"Error | None"',
    "source": '"Source | None"',
    "target": "Composite | None",
    "state": "Composite | None",
    "outcome": "Composite | None",
    "unsettled": "dict[bytes, Composite | None] | None",
}
ZEROS: Final = {"bool": "False", "int": "0", "str": '""', "bytes": 'b""'}
# What is read and written by functions of the generated module and not by those of `fields`.
OURS: Final = {"error", "source", "target", "state", "outcome", "unsettled"}
SECTION_TYPES: Final = {
    "map": "dict[object, object]",
    "binary": "bytes",
    "list": "list[object]",
    "any": "object",
}


@dataclass(frozen=True)
class Field:
    wire_name: str
    kind: str
    mandatory: bool
    default: str

    @property
    def name(self) -> str:
        return python_name(self.wire_name)

    @property
    def is_optional(self) -> bool:
        """Whether Python sees None where the field is absent."""
        return not self.mandatory and not self.default and self.kind != "symbols"

    @property
    def python_type(self) -> str:
        written = OPTIONAL_TYPES[self.kind]
        return written if self.is_optional else written.removesuffix(" | None")

    @property
    def python_default(self) -> str:
        if self.default:
            if self.kind == "symbol":
                return f'"{self.default}"'
            return self.default.capitalize() if self.kind == "boolean" else self.default
        if self.mandatory and self.kind != "symbols":
            return ZEROS[self.python_type]
        return "None"


@dataclass(frozen=True)
class CompositeSpec:
    wire_name: str
    code: int
    provides: str
    fields: tuple[Field, ...]
    # Type of a section that is no list of fields.
    section: str = ""

    @property
    def name(self) -> str:
        return class_name(self.wire_name)

    @property
    def constant(self) -> str:
        return constant_name(self.wire_name)

    @property
    def symbol(self) -> str:
        suffix = {"any": "*"}.get(self.section, self.section) or "list"
        return f"amqp:{self.wire_name}:{suffix}"

    @property
    def head(self) -> str:
        return f'b"\\x00\\x53\\x{self.code:02x}"'


def read_field(text: str) -> Field:
    name, kind = text.split()
    kind, _, default = kind.partition("=")
    return Field(name, kind.removesuffix("!"), kind.endswith("!"), default)


def read_composites(spec: dict[str, object]) -> list[CompositeSpec]:
    composites: list[CompositeSpec] = []
    listed, sections = spec["composite"], spec["section"]
    assert isinstance(listed, list)
    assert isinstance(sections, list)
    for entry in listed:
        fields = tuple(read_field(text) for text in entry["fields"])
        composites.append(CompositeSpec(entry["name"], entry["code"], entry["provides"], fields))
    for entry in sections:
        composites.append(CompositeSpec(entry["name"], entry["code"], "section", (), entry["type"]))
    return sorted(composites, key=lambda composite: composite.code)


def init_lines(composite: CompositeSpec) -> list[str]:
    if not composite.fields:
        return []
    lines = ["    def __init__(", "        self,"]
    for field in composite.fields:
        declared = field.python_type
        if field.kind == "symbols":
            declared += " | None"
        lines.append(f"        {field.name}: {declared} = {field.python_default},")
    lines.append("    ) -> None:")
    for field in composite.fields:
        value = f"{field.name} or []" if field.kind == "symbols" else field.name
        declared = field.python_type.strip('"')
        lines.append(f"        self.{field.name}: {declared} = {value}")
    return [*lines, ""]


def encode_expression(field: Field) -> str:
    function = field.kind.replace("-", "_")
    if field.kind in {"error", "source", "target", "state", "outcome"}:
        function = "composite"
    written = f"{function}_field(self.{field.name})"
    if field.default == "false":
        return f"{written} if self.{field.name} else NULL"
    if field.default:
        return f"{written} if self.{field.name} != {field.python_default} else NULL"
    return written


def encode_lines(composite: CompositeSpec) -> list[str]:
    lines = ["    def encode(self) -> bytes:"]
    if not composite.fields:
        return [*lines, f'        return {composite.head[:-1]}\\x45"', ""]
    lines += ["        return encode_composite(", f"            {composite.head},", "            ["]
    lines += [f"                {encode_expression(field)}," for field in composite.fields]
    return [*lines, "            ],", "        )", ""]


def decode_field(composite: CompositeSpec, field: Field) -> list[str]:
    function = field.kind.replace("-", "_")
    read = f"read_{function}(fields)" if field.kind in OURS else f"fields.{function}()"
    lines = [f"        {field.name} = {read}"]
    absent = f"not {field.name}" if field.kind == "symbols" else f"{field.name} is None"
    if field.mandatory:
        lines.append(f"        if {absent}:")
        lines.append(f'            raise missing("{composite.wire_name}", "{field.wire_name}")')
    elif field.default:
        lines.append(f"        if {absent}:")
        lines.append(f"            {field.name} = {field.python_default}")
    return lines


def decode_lines(composite: CompositeSpec) -> list[str]:
    lines = ["    @staticmethod", f'    def decode(fields: Fields) -> "{composite.name}":']
    for field in composite.fields:
        lines += decode_field(composite, field)
    lines.append("        fields.finish()")
    if not composite.fields:
        return [*lines, f"        return {composite.name}()", ""]
    arguments = [f"            {field.name}," for field in composite.fields]
    return [*lines, f"        return {composite.name}(", *arguments, "        )", ""]


def section_lines(composite: CompositeSpec) -> list[str]:
    kind = SECTION_TYPES[composite.section]
    checked = f'expect_{composite.section}(reader, "{composite.wire_name}")'
    if composite.section == "any":
        checked = "reader.value()"
    return [
        f"    def __init__(self, value: {kind}) -> None:",
        f"        self.value: {kind} = value",
        "",
        "    def encode(self) -> bytes:",
        f"        return {composite.head} + encode_value(self.value)",
        "",
        "    @staticmethod",
        f'    def decode(reader: Reader) -> "{composite.name}":',
        f"        return {composite.name}({checked})",
        "",
        "    def shown(self) -> list[tuple[str, object]]:",
        '        return [("value", self.value)]',
        "",
    ]


def composite_class(composite: CompositeSpec) -> list[str]:
    lines = ["", f"class {composite.name}(Composite):"]
    if composite.section:
        body = section_lines(composite)
    else:
        body = [*init_lines(composite), *encode_lines(composite), *decode_lines(composite)]
        body += pairs_lines("shown", [field.name for field in composite.fields])
    lines += body
    lines += ["    def identity(self) -> int:", f"        return {composite.constant}", ""]
    return [
        *lines,
        "    def wire_name(self) -> str:",
        f'        return "{composite.wire_name}"',
        "",
    ]


def tables(composites: list[CompositeSpec]) -> list[str]:
    lines = ["", "NAMES: Final = {"]
    lines += [f'    {composite.constant}: "{composite.wire_name}",' for composite in composites]
    lines += ["}", "", "SYMBOLS: Final[dict[object, int]] = {"]
    lines += [f'    "{composite.symbol}": {composite.constant},' for composite in composites]
    lines += ["}", ""]
    groups = {"FRAMES": "frame", "SASL_FRAMES": "sasl", "OUTCOMES": "outcome", "TARGETS": "target"}
    for name, provides in groups.items():
        lines += set_lines(name, [c.constant for c in composites if c.provides == provides])
    states = [c.constant for c in composites if c.provides in {"state", "outcome"}]
    lines += set_lines("STATES", states)
    lines += ["", "_COMPOSITES: Final[dict[int, Callable[[Fields], Composite]]] = {"]
    lines += [f"    {c.constant}: {c.name}.decode," for c in composites if not c.section]
    lines += ["}", "_SECTIONS: Final[dict[int, Callable[[Reader], Composite]]] = {"]
    lines += [f"    {c.constant}: {c.name}.decode," for c in composites if c.section]
    return [*lines, "}"]


# Single quotes because the text holds docstrings.
HEAD: Final = '''"""The composites of AMQP 1.0. Generated by tools/generate_amqp10.py; do not edit.

`encode` writes the descriptor as a small ulong, fields that have their default as null, and leaves
out nulls at the end. `decode` is called behind the descriptor, see `decode_composite`; it raises
`Malformed` for a field that is missing or of the wrong type and skips fields it does not know.
"""

from collections.abc import Callable
from typing import Final

from penstock.formats.octets import Malformed
from penstock.wire.amqp10.decoding import Reader
from penstock.wire.amqp10.encoding import encode_value, write_binary, write_list
from penstock.wire.amqp10.fields import (
    Fields,
    any_field,
    binary_field,
    boolean_field,
    encode_composite,
    fields_of,
    map_field,
    message_id_field,
    missing,
    named_field,
    string_field,
    symbol_field,
    symbols_field,
    timestamp_field,
    ubyte_field,
    uint_field,
    ulong_field,
    ushort_field,
)
from penstock.wire.amqp10.values import Composite, Described, Symbol, ULong

NULL: Final = b"\\x40"


class UnknownComposite(Malformed):
    """No composite has this descriptor."""


'''

TAIL: Final = '''

def decode_composite(reader: Reader) -> Composite:
    """The composite that must be next, by its numeric or symbolic descriptor."""
    descriptor = reader.described_as()
    code = code_of(descriptor)
    decoder = _COMPOSITES.get(code)
    if decoder is not None:
        fields = fields_of(reader)
        return decoder(fields)
    section = _SECTIONS.get(code)
    if section is None:
        raise UnknownComposite(f"unknown descriptor {descriptor!r}")
    return section(reader)


def composite_of(value: Described) -> Composite | None:
    """A described value as the composite it is, or None when its descriptor is not known."""
    if code_of(value.descriptor) not in NAMES:
        return None
    encoded = encode_value(value)
    return decode_composite(Reader(encoded, 0, len(encoded)))


def code_of(descriptor: object) -> int:
    """-1 for what is neither an ulong nor a symbol of ours."""
    if isinstance(descriptor, ULong):
        return int(descriptor)
    if isinstance(descriptor, Symbol):
        return SYMBOLS.get(descriptor, -1)
    return -1


def composite_field(value: Composite | None) -> bytes:
    return NULL if value is None else value.encode()


def unsettled_field(value: dict[bytes, Composite | None] | None) -> bytes:
    if value is None:
        return NULL
    pieces: list[bytes] = []
    for tag, state in value.items():
        pieces.append(write_binary(tag))
        pieces.append(composite_field(state))
    return write_list(pieces, 0xC1)


def _read_one(fields: Fields, wanted: frozenset[int], kind: str) -> Composite | None:
    if fields.is_null():
        return None
    fields.left -= 1
    composite = decode_composite(fields)
    if composite.identity() not in wanted:
        raise Malformed(f"{kind} expected, got {composite.wire_name()}")
    return composite


def read_state(fields: Fields) -> Composite | None:
    return _read_one(fields, STATES, "delivery state")


def read_outcome(fields: Fields) -> Composite | None:
    return _read_one(fields, OUTCOMES, "outcome")


def read_target(fields: Fields) -> Composite | None:
    return _read_one(fields, TARGETS, "target")


def read_source(fields: Fields) -> Source | None:
    source = _read_one(fields, frozenset({SOURCE}), "source")
    return source if isinstance(source, Source) else None


def read_error(fields: Fields) -> Error | None:
    error = _read_one(fields, frozenset({ERROR}), "error")
    return error if isinstance(error, Error) else None


def read_unsettled(fields: Fields) -> dict[bytes, Composite | None] | None:
    value = fields.map()
    if value is None:
        return None
    unsettled: dict[bytes, Composite | None] = {}
    for tag, described in value.items():
        if not isinstance(tag, bytes):
            raise Malformed(f"delivery tag expected, got {type(tag).__name__}")
        state: Composite | None = None
        if isinstance(described, Described):
            state = composite_of(described)
            if state is None or state.identity() not in STATES:
                raise Malformed("delivery state expected in an unsettled map")
        elif described is not None:
            raise Malformed(f"delivery state expected, got {type(described).__name__}")
        unsettled[tag] = state
    return unsettled


def expect_map(reader: Reader, name: str) -> dict[object, object]:
    value = reader.value()
    if isinstance(value, dict):
        return value
    raise Malformed(f"{name} is a map, not {type(value).__name__}")


def expect_list(reader: Reader, name: str) -> list[object]:
    value = reader.value()
    if isinstance(value, list):
        return value
    raise Malformed(f"{name} is a list, not {type(value).__name__}")


def expect_binary(reader: Reader, name: str) -> bytes:
    value = reader.value()
    if isinstance(value, bytes):
        return value
    raise Malformed(f"{name} is binary, not {type(value).__name__}")
'''


def performatives_module(composites: list[CompositeSpec]) -> str:
    lines = [f"{composite.constant}: Final = 0x{composite.code:02X}" for composite in composites]
    lines.append("")
    for composite in composites:
        lines += composite_class(composite)
    return HEAD + "\n".join([*lines, *tables(composites)]) + "\n" + TAIL


def conditions_module(spec: dict[str, object]) -> str:
    conditions = spec["conditions"]
    assert isinstance(conditions, dict)
    lines = constants_module("Error conditions of AMQP 1.0", "generate_amqp10.py")
    constants = []
    for prefix, names in conditions.items():
        for name in names:
            # Only those of a level that says it have its name in front: two levels redirect.
            level = prefix.removeprefix("amqp").removeprefix(":")
            constant = constant_name(*([level] if level else []), name)
            constants.append(constant)
            lines.append(f'{constant}: Final = "{prefix}:{name}"')
    return "\n".join([*lines, "", *set_lines("CONDITIONS", constants), ""])


def outputs() -> dict[Path, str]:
    spec = read_spec("amqp10.toml")
    return {
        TARGET / "performatives_generated.py": performatives_module(read_composites(spec)),
        TARGET / "conditions_generated.py": conditions_module(spec),
    }


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__, outputs(), sys.argv[1:]))
