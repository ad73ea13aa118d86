from array import array

from bench.numbers import read_numbers, write_numbers


def test_numbers_are_read_where_they_were_written_and_touch_nothing_else() -> None:
    messages = bytearray(b"." * 5 * 20)
    numbers = array("Q", [0, 1, 2**63, 2**64 - 1, 77])
    write_numbers(messages, 7, 20, numbers)
    assert read_numbers(memoryview(messages), 7, 20) == numbers
    for at in range(0, len(messages), 20):
        assert messages[at : at + 7] == b"." * 7
        assert messages[at + 15 : at + 20] == b"." * 5
