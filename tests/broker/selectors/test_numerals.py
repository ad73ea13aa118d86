import pytest

from penstock.broker.selectors.numerals import EXACT_MAX, scan_number
from penstock.broker.selectors.refusal import NUMBER_CHARACTERS_MAX, SelectorError


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("57", 57),
        ("57L", 57),
        ("57l", 57),
        ("0L", 0),
        ("0x1F", 31),
        ("0XffL", 255),
        ("017", 15),
        ("00", 0),
        ("0b101", 5),
        ("0B1l", 1),
        (str(EXACT_MAX), EXACT_MAX),
        ("0b" + "1" * 64, EXACT_MAX),
        ("7.", 7.0),
        (".5", 0.5),
        ("0.5", 0.5),
        ("09.5", 9.5),
        ("7E3", 7000.0),
        ("7e+3", 7000.0),
        ("57.9E-2", 0.579),
        ("7.e1", 70.0),
        (".5E1", 5.0),
        ("6f", 6.0),
        ("6.2D", 6.2),
        ("6e1d", 60.0),
        ("09d", 9.0),
        ("1e-999", 0.0),
    ],
)
def test_a_number_is_read_as_java_writes_it(text: str, number: float) -> None:
    read, end = scan_number(f"a={text} ", 2)
    assert read == number
    assert type(read) is type(number)
    assert end == 2 + len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x", "a number"),
        ("0xg", "a number"),
        ("0b2", "a number"),
        ("1e", "a number"),
        ("1e+", "a number"),
        ("089", "octal digits after a leading 0"),
        (str(EXACT_MAX + 1), "a number of at most 64 bits"),
        ("0x1" + "0" * 16, "a number of at most 64 bits"),
        ("1e309", "a number of double precision"),
        ("9" * 5000, f"a number of at most {NUMBER_CHARACTERS_MAX} characters"),
        ("0." + "0" * 5000, f"a number of at most {NUMBER_CHARACTERS_MAX} characters"),
    ],
)
def test_what_is_no_number_is_refused(text: str, expected: str) -> None:
    with pytest.raises(SelectorError) as caught:
        scan_number(f"a={text}", 2)
    assert caught.value.expected == expected
    assert caught.value.position == 3
