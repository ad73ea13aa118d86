"""Write src/penstock/wire/amqp091/*_generated.py from spec/amqp091.toml.

`python tools/generate_amqp091.py` writes, `--check` only says whether the files are fresh.
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

TARGET: Final = WIRE / "amqp091"

PYTHON_TYPES: Final = {
    "bit": "bool",
    "octet": "int",
    "short": "int",
    "long": "int",
    "longlong": "int",
    "timestamp": "int",
    "shortstr": "str",
    "longstr": "bytes",
    "table": "dict[str, object]",
}
DEFAULTS: Final = {"bool": "False", "int": "0", "str": '""', "bytes": 'b""'}
FIXED_SIZES: Final = {"octet": 1, "short": 2, "long": 4, "longlong": 8, "timestamp": 8}
FIXED_SUFFIXES: Final = {"octet": "u8", "short": "u16", "long": "u32", "longlong": "u64"}


@dataclass(frozen=True)
class Field:
    name: str
    kind: str

    @property
    def reserved(self) -> bool:
        return self.name.startswith("reserved_")

    @property
    def python_type(self) -> str:
        return PYTHON_TYPES[self.kind]


@dataclass(frozen=True)
class MethodSpec:
    class_name: str
    class_id: int
    name: str
    method_id: int
    sender: str
    content: bool
    answers: tuple[str, ...]
    fields: tuple[Field, ...]

    @property
    def full_name(self) -> str:
        return f"{self.class_name}.{self.name}"

    @property
    def python_name(self) -> str:
        return class_name(self.class_name, self.name)

    @property
    def constant(self) -> str:
        return constant_name(self.class_name, self.name)

    @property
    def identity(self) -> int:
        return self.class_id << 16 | self.method_id

    @property
    def kept(self) -> list[Field]:
        return [field for field in self.fields if not field.reserved]


def python_field(text: str) -> Field:
    name, kind = text.split()
    return Field(python_name(name), kind)


def read_methods(spec: dict[str, object]) -> list[MethodSpec]:
    methods: list[MethodSpec] = []
    classes = spec["class"]
    assert isinstance(classes, list)
    for entry in classes:
        for method in entry["methods"]:
            methods.append(
                MethodSpec(
                    entry["name"],
                    entry["id"],
                    method["name"],
                    method["id"],
                    method["sender"],
                    method.get("content", False),
                    tuple(method.get("answers", [])),
                    tuple(python_field(text) for text in method["fields"]),
                )
            )
    return methods


def init_lines(method: MethodSpec) -> list[str]:
    if not method.kept:
        return []
    lines = ["    def __init__(", "        self,"]
    for field in method.kept:
        if field.kind == "table":
            lines.append(f"        {field.name}: dict[str, object] | None = None,")
        else:
            default = DEFAULTS[field.python_type]
            lines.append(f"        {field.name}: {field.python_type} = {default},")
    lines.append("    ) -> None:")
    for field in method.kept:
        if field.kind == "table":
            lines.append(f"        if {field.name} is None:")
            lines.append(f"            {field.name} = {{}}")
        lines.append(f"        self.{field.name}: {field.python_type} = {field.name}")
    return [*lines, ""]


def bit_runs(fields: tuple[Field, ...]) -> list[list[Field]]:
    """Consecutive bits share octets, eight to each; every other field stands alone."""
    runs: list[list[Field]] = []
    for field in fields:
        if field.kind == "bit" and runs and runs[-1][0].kind == "bit" and len(runs[-1]) < 8:
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs


def encode_expression(run: list[Field]) -> str:
    field = run[0]
    if field.kind == "bit":
        return 'b"\\x00"' if all(flag.reserved for flag in run) else "write_u8(bits)"
    if field.reserved:
        size = {"shortstr": 1, "longstr": 4, "table": 4}.get(field.kind) or FIXED_SIZES[field.kind]
        return 'b"' + "\\x00" * size + '"'
    if field.kind == "shortstr":
        return f"write_short_string(self.{field.name})"
    if field.kind == "longstr":
        return f"write_long_string(self.{field.name})"
    if field.kind == "table":
        return f"encode_table(self.{field.name})"
    return f"write_{FIXED_SUFFIXES[field.kind]}(self.{field.name})"


def encode_lines(method: MethodSpec) -> list[str]:
    head = method.identity.to_bytes(4, "big")
    literal = 'b"' + "".join(f"\\x{octet:02x}" for octet in head) + '"'
    lines = ["    def encode(self) -> bytes:"]
    if not method.fields:
        return [*lines, f"        return {literal}", ""]
    for run in bit_runs(method.fields):
        for bit, flag in enumerate(run):
            if flag.kind == "bit" and not flag.reserved:
                assignment = "bits =" if bit == 0 else "bits |="
                lines.append(f"        {assignment} {1 << bit} if self.{flag.name} else 0")
    lines += ['        return b"".join(', "            ["]
    lines.append(f"                {literal},")
    for run in bit_runs(method.fields):
        lines.append(f"                {encode_expression(run)},")
    return [*lines, "            ]", "        )", ""]


def decode_run(run: list[Field]) -> list[str]:
    field = run[0]
    if field.kind == "bit":
        lines = ["        bits = read_u8(payload, at)"]
        if all(flag.reserved for flag in run):
            lines = ["        read_u8(payload, at)"]
        for bit, flag in enumerate(run):
            if not flag.reserved:
                lines.append(f"        {flag.name} = bits & {1 << bit} != 0")
        return [*lines, "        at += 1"]
    target = "" if field.reserved else f"{field.name} = "
    if field.kind == "shortstr":
        lines = [f"        {target}read_short_string(payload, at)", "        at += 1 + payload[at]"]
    elif field.kind == "longstr":
        lines = [
            f"        {target}read_long_string(payload, at)",
            "        at += 4 + read_u32(payload, at)",
        ]
    elif field.kind == "table":
        lines = [
            f"        {target}decode_table(payload, at)",
            "        at += 4 + read_u32(payload, at)",
        ]
    else:
        suffix = FIXED_SUFFIXES[field.kind]
        lines = [
            f"        {target}read_{suffix}(payload, at)",
            f"        at += {FIXED_SIZES[field.kind]}",
        ]
    return lines


def decode_lines(method: MethodSpec) -> list[str]:
    name = method.python_name
    lines = ["    @staticmethod", f'    def decode(payload: bytes) -> "{name}":']
    if method.fields:
        lines.append("        at = 4")
        for run in bit_runs(method.fields):
            lines += decode_run(run)
        lines.append(f'        expect_end(payload, at, "{method.full_name}")')
    else:
        lines.append(f'        expect_end(payload, 4, "{method.full_name}")')
    if not method.kept:
        return [*lines, f"        return {name}()", ""]
    arguments = [f"            {field.name}," for field in method.kept]
    return [*lines, f"        return {name}(", *arguments, "        )", ""]


def method_class(method: MethodSpec) -> list[str]:
    return [
        "",
        f"class {method.python_name}(Method):",
        f"    CLASS_ID: ClassVar[int] = {method.class_id}",
        f"    METHOD_ID: ClassVar[int] = {method.method_id}",
        f'    NAME: ClassVar[str] = "{method.full_name}"',
        "",
        *init_lines(method),
        "    def identity(self) -> int:",
        f"        return {method.constant}",
        "",
        *encode_lines(method),
        *decode_lines(method),
        *pairs_lines("described", [field.name for field in method.kept]),
    ]


def method_set(name: str, chosen: list[MethodSpec]) -> list[str]:
    return set_lines(name, [method.constant for method in chosen])


def method_tables(methods: list[MethodSpec]) -> list[str]:
    lines = ["", "NAMES: Final = {"]
    lines += [f'    {method.constant}: "{method.full_name}",' for method in methods]
    lines.append("}")
    lines += method_set("WITH_CONTENT", [method for method in methods if method.content])
    for sender in ("client", "server"):
        chosen = [method for method in methods if method.sender in {sender, "both"}]
        lines += method_set(f"SENT_BY_{sender.upper()}", chosen)
    lines += method_set("SENT_BY_PEER", [method for method in methods if method.sender == "peer"])
    lines.append("ANSWERS: Final = {")
    for method in methods:
        if method.answers:
            names = [constant_name(method.class_name, answer) for answer in method.answers]
            lines.append(
                f"    {method.constant}: ({', '.join(names)}{',' if len(names) == 1 else ''}),"
            )
    lines.append("}")
    lines.append("_DECODERS: Final[dict[int, Callable[[bytes], Method]]] = {")
    lines += [f"    {method.constant}: {method.python_name}.decode," for method in methods]
    return [*lines, "}"]


# Single quotes because the text holds a docstring.
METHODS_HEAD: Final = '''"""The methods of AMQP 0-9-1. Generated by tools/generate_amqp091.py; do not edit.

A method's payload starts with its class and method ids. Reserved fields are written as zero and
skipped when read. `decode` raises `Malformed` for anything but exactly one method's fields.
"""

from collections.abc import Callable
from typing import ClassVar, Final

from penstock.formats.octets import (
    Malformed,
    read_long_string,
    read_short_string,
    read_u8,
    read_u16,
    read_u32,
    read_u64,
    write_long_string,
    write_short_string,
    write_u8,
    write_u16,
    write_u32,
    write_u64,
)
from penstock.wire.amqp091.field_table import decode_table, encode_table


class UnknownMethod(Malformed):
    """No method has these ids."""


class Method:
    """Parent of all methods. `identity()` is the class id and the method id in one number."""

    CLASS_ID: ClassVar[int] = 0
    METHOD_ID: ClassVar[int] = 0
    NAME: ClassVar[str] = ""

    def identity(self) -> int:
        raise NotImplementedError

    def encode(self) -> bytes:
        """The payload of a method frame."""
        raise NotImplementedError

    def described(self) -> list[tuple[str, object]]:
        return []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Method) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    def __repr__(self) -> str:
        fields = " ".join(f"{name}={value!r}" for name, value in self.described())
        return f"<{NAMES[self.identity()]} {fields}>" if fields else f"<{NAMES[self.identity()]}>"


def expect_end(payload: bytes, at: int, name: str) -> None:
    if at != len(payload):
        raise Malformed(f"{len(payload) - at} octets after the last field of {name}")


'''

METHODS_TAIL: Final = """

def decode_method(payload: bytes) -> Method:
    identity = read_u32(payload, 0)
    decoder = _DECODERS.get(identity)
    if decoder is None:
        raise UnknownMethod(f"class {identity >> 16} has no method {identity & 0xFFFF}")
    return decoder(payload)
"""


def methods_module(methods: list[MethodSpec]) -> str:
    lines = [f"{method.constant}: Final = 0x{method.identity:08X}" for method in methods]
    lines.append("")
    for method in methods:
        lines += method_class(method)
    return METHODS_HEAD + "\n".join([*lines, *method_tables(methods)]) + "\n" + METHODS_TAIL


def reply_codes_module(spec: dict[str, object]) -> str:
    replies = spec["reply"]
    assert isinstance(replies, list)
    lines = constants_module("Reply codes of AMQP 0-9-1", "generate_amqp091.py")
    lines += [f"{reply['name']}: Final = {reply['code']}" for reply in replies]
    lines += ["", "REPLY_NAMES: Final = {"]
    lines += [f'    {reply["name"]}: "{reply["name"]}",' for reply in replies]
    lines += ["}", "# Codes that end the connection; the others end a channel."]
    hard = [reply["name"] for reply in replies if reply["level"] == "connection"]
    return "\n".join([*lines, *set_lines("CONNECTION_LEVEL", hard), ""])


def property_flags_module(spec: dict[str, object]) -> str:
    properties = spec["properties"]
    assert isinstance(properties, dict)
    lines = constants_module("Property flags of class basic", "generate_amqp091.py")
    for index, text in enumerate(properties["basic"]):
        lines.append(f"{constant_name(text.split()[0])}: Final = 0x{1 << (15 - index):04X}")
    return "\n".join([*lines, ""])


def outputs() -> dict[Path, str]:
    spec = read_spec("amqp091.toml")
    return {
        TARGET / "methods_generated.py": methods_module(read_methods(spec)),
        TARGET / "reply_codes_generated.py": reply_codes_module(spec),
        TARGET / "property_flags_generated.py": property_flags_module(spec),
    }


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__, outputs(), sys.argv[1:]))
