"""The leaf readers read what the leaf writers and struct write, and nothing beyond the end."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats import octets
from penstock.formats.octets import Malformed, Truncated

READERS: dict[str, Callable[[bytes, int], float]] = {
    ">B": octets.read_u8,
    ">H": octets.read_u16,
    ">I": octets.read_u32,
    ">Q": octets.read_u64,
    ">b": octets.read_i8,
    ">h": octets.read_i16,
    ">i": octets.read_i32,
    ">q": octets.read_i64,
    ">f": octets.read_f32,
    ">d": octets.read_f64,
    "<I": octets.read_u32_le,
}


@pytest.mark.parametrize("layout", READERS)
@given(data=st.binary(min_size=12, max_size=12), at=st.integers(0, 4))
def test_a_number_is_read_as_struct_reads_it(layout: str, data: bytes, at: int) -> None:
    (expected,) = struct.unpack_from(layout, data, at)
    value = READERS[layout](data, at)
    assert value == expected or value != value  # noqa: PLR0124 - a NaN is read as a NaN


@pytest.mark.parametrize("layout", READERS)
def test_a_number_that_reaches_beyond_the_end_is_refused(layout: str) -> None:
    size = struct.calcsize(layout)
    READERS[layout](b"\x00" * size, 0)
    for at in (1, size, 100):
        with pytest.raises(Truncated):
            READERS[layout](b"\x00" * size, at)


@pytest.mark.parametrize(
    ("write", "layout", "value"),
    [
        (octets.write_u8, ">B", 255),
        (octets.write_u16, ">H", 0x1234),
        (octets.write_u32, ">I", 0x12345678),
        (octets.write_u64, ">Q", 0x123456789ABCDEF0),
        (octets.write_u32_le, "<I", 0x12345678),
    ],
)
def test_a_number_is_written_as_struct_writes_it(
    write: Callable[[int], bytes], layout: str, value: int
) -> None:
    assert write(value) == struct.pack(layout, value)


def test_a_float_is_written_as_struct_writes_it() -> None:
    assert octets.write_f64(1.5) == struct.pack(">d", 1.5)


@given(st.text(max_size=63))
def test_a_short_string_survives(text: str) -> None:
    assert octets.read_short_string(b"xx" + octets.write_short_string(text), 2) == text


@given(st.binary(max_size=400))
def test_a_long_string_survives(value: bytes) -> None:
    assert octets.read_long_string(b"xx" + octets.write_long_string(value), 2) == value


@pytest.mark.parametrize("data", [b"", b"\x02a"])
def test_a_short_string_cut_short_is_refused(data: bytes) -> None:
    with pytest.raises(Truncated):
        octets.read_short_string(data, 0)


@pytest.mark.parametrize("data", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x02a", b"\xff\xff\xff\xff"])
def test_a_long_string_cut_short_is_refused(data: bytes) -> None:
    with pytest.raises(Truncated):
        octets.read_long_string(data, 0)


def test_a_short_string_is_utf_8() -> None:
    with pytest.raises(Malformed, match="not UTF-8"):
        octets.read_short_string(b"\x01\xff", 0)


def test_a_short_string_has_no_more_than_255_octets() -> None:
    assert len(octets.write_short_string("x" * 255)) == 256
    with pytest.raises(ValueError, match="256"):
        octets.write_short_string("é" * 128)
