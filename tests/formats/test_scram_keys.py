"""SCRAM keys as one line of text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.octets import Malformed
from penstock.formats.scram_keys import ScramKeys, decode_keys, derive, encode_keys

# What PostgreSQL 15 keeps for the password "pencil" with RFC 7677's salt.
PENCIL = (
    "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
    "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
)


def test_the_text_is_the_one_that_others_keep() -> None:
    keys = derive("pencil", decode_keys(PENCIL).salt, 4096)
    assert encode_keys(keys) == PENCIL


@given(
    st.binary(min_size=1, max_size=40),
    st.integers(4096, 1_000_000),
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=32, max_size=32),
)
def test_what_is_written_is_read(salt: bytes, count: int, stored: bytes, server: bytes) -> None:
    read = decode_keys(encode_keys(ScramKeys(salt, count, stored, server)))
    assert (read.salt, read.iterations) == (salt, count)
    assert (read.stored_key, read.server_key) == (stored, server)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SCRAM-SHA-1" + PENCIL[13:],
        PENCIL.replace("4096", "4095"),
        PENCIL.replace("4096", "1000001"),
        PENCIL.replace("4096", "many"),
        PENCIL.replace("W22Z", "W2*Z"),
        PENCIL.replace(":W22ZaJ0SNY7soEsUEjb6gQ==", ":"),
        PENCIL[:-8],
        PENCIL + "$more",
    ],
)
def test_a_text_that_is_not_of_this_form_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        decode_keys(text)
