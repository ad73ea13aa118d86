"""Records of ledgers have the bytes that the drawing says, however they are written."""

import numpy as np
import pytest

from penstock.formats import ledger_records as form


@pytest.mark.parametrize(
    ("magic", "known"), [(form.BROKER_MAGIC, b"PENSTLDG"), (form.CLIENT_MAGIC, b"PENSTLDC")]
)
def test_a_file_begins_with_known_bytes(magic: bytes, known: bytes) -> None:
    assert form.head(magic) == known + b"\x01\0\x20\0" + bytes(20)


def test_a_record_has_known_bytes() -> None:
    octets = form.record(0x0102, 4, 3, 0x0506, 0x0708, 9, publisher=0x0A0B, sequence=0x0C0D)
    assert octets == bytes.fromhex(
        "0201000000000000 04 03 0b0a 06050000 0807000000000000 09000000 0d0c0000".replace(" ", "")
    )


def test_numpy_reads_a_record_by_the_same_fields() -> None:
    kind = np.dtype(list(form.RECORD_FIELDS))
    assert kind.itemsize == form.RECORD_SIZE == form.RECORD.size
    values = {"time": 1, "event": 2, "detail": 3, "publisher": 4, "name": 5, "first": 6}
    values |= {"count": 7, "sequence": 8}
    row = np.frombuffer(form.record(**values), kind)[0]
    assert {name: int(row[name]) for name, _ in form.RECORD_FIELDS} == values


def test_records_that_are_collected_as_words_have_the_same_bytes() -> None:
    words: list[int] = []
    form.add_record(words, 1, 2, 3, 4, 5, 6)
    form.add_enqueued(words, 1, 3, 7, 4, 5, 6, (9 << 32) + 0xFFFFFFF8)
    assert form.packed(words) == form.record(1, 2, 3, 4, 5, 6) + form.record(
        1, form.ENQUEUED, 3, 4, 5, 6, publisher=7, sequence=0xFFFFFFF8
    )


def test_sequences_fill_records_of_fifteen() -> None:
    words: list[int] = []
    ahead = list(range(1, 17))
    form.add_sequences(words, list(ahead))
    octets = form.packed(words)
    assert len(octets) == 2 * form.RECORD_SIZE
    halves = np.frombuffer(octets, "<u2").reshape(2, 16)
    events = [form.SEQUENCES | 15 << 8, form.SEQUENCES | 1 << 8]
    # Where every record has its event and detail, the fifth of its sixteen words.
    assert halves[:, 4].tolist() == events
    found = np.delete(halves, 4, axis=1).ravel().tolist()
    assert found == ahead + [0] * 14


def test_a_name_is_filled_up_to_whole_records() -> None:
    octets = form.name_record(1, 2, form.broker_name("/", "q" * 40), form.IS_DURABLE, 7)
    assert len(octets) == 3 * form.RECORD_SIZE
    assert octets[: form.RECORD_SIZE] == form.record(1, form.NAME, form.IS_DURABLE, 2, 7, 42)
    assert octets[form.RECORD_SIZE :] == b"/\0" + b"q" * 40 + bytes(22)


def test_a_tag_is_written_in_two_halves() -> None:
    octets = form.tagged_record(1, 2, (3 << 32) + 4, 5)
    assert octets == form.record(1, form.TAGGED, 0, 2, 5, 3, sequence=4)


def test_names_are_parted_by_nul() -> None:
    assert form.client_name("v", "q", "p") == b"v\0q\0p"
    assert form.session_name("c", 4) == "c/4"
